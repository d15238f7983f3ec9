"""Pictures of the pages for README and help, taken in a real browser; by hand, after a change of the pages.

PYTHONPATH=src:. python -m tools.docs.workbench
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

import netweave
from netweave.api import save_page
from netweave.web.samples import samples
from tests.web.browser.visiting import VIEWER, drop
from tests.web.running import Workbench

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "src" / "netweave" / "web" / "static" / "web" / "help"
PAGE = ROOT / "docs" / "images" / "viewer.png"
SWITCHES = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, Workbench(Path(data)) as bench, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        page = browser.new_page(viewport={"width": 1280, "height": 720}, base_url=bench.url)
        page.goto("/")
        page.get_by_text("Say which net is which, give sizes or settings").click()
        _drop_the_sample(page, Path(data))
        page.evaluate("window.scrollTo(0, 0)")
        sides = page.get_by_text("Say which net is which, give sizes or settings").bounding_box()
        clip = {"x": 0, "y": sides["y"] - 16, "width": 1280, "height": 620}
        page.screenshot(path=FOLDER / "bring.png", full_page=True, clip=clip)
        page.click("#compare")
        page.wait_for_selector(VIEWER)
        page.wait_for_timeout(2500)
        page.screenshot(path=FOLDER / "compare.png")
        page.get_by_text("Share", exact=True).click()
        page.get_by_role("button", name="Create a link").click()
        page.wait_for_selector("#address")
        page.wait_for_timeout(2000)
        page.screenshot(path=FOLDER / "share.png", clip={"x": 0, "y": 0, "width": 1280, "height": 420})
        take_page(browser)
        browser.close()
    for path in (*FOLDER.glob("*.png"), PAGE):
        _shrink(path)


def _drop_the_sample(page: Page, folder: Path) -> None:
    sample = samples()["padding"]
    for letter, files in (("A", sample.a), ("B", sample.b)):
        for name, content in files.items():
            (folder / name).write_bytes(content)
        drop(page, letter, *(folder / name for name in files))
    page.wait_for_selector("#compare:enabled")


def take_page(browser: Browser) -> None:
    """Take the picture of the page of ``examples/padding`` that README shows."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(ROOT / "examples" / "padding"):
        subprocess.run([sys.executable, "make_weights.py"], check=True)
        file = Path(folder) / "comparison.html"
        save_page(netweave.compare("leaves.prototxt", "leaves-symbol.json"), file)
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(file.as_uri())
        page.wait_for_selector(".nw-header .nw-chip")
        page.wait_for_timeout(1500)
        page.screenshot(path=PAGE)


def _shrink(path: Path) -> None:
    """Keep 256 colours of a picture: pages have few, and the file is a third of the size."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main()
