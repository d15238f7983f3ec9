"""Pictures of the workbench for its help page, taken in a real browser; by hand, after a change of the pages.

PYTHONPATH=src:. python -m tools.docs.workbench
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.web.running import Workbench

FOLDER = Path(__file__).parents[2] / "src" / "netweave" / "web" / "static" / "web" / "help"
SWITCHES = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def main() -> None:
    """Take the pictures."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, Workbench(Path(data)) as bench, sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=shutil.which("chromium"), args=SWITCHES)
        page = browser.new_page(viewport={"width": 1280, "height": 720}, base_url=bench.url)
        page.goto("/")
        page.get_by_role("button", name="A port with a mistake").click()
        page.wait_for_selector("#compare:enabled")
        page.screenshot(path=FOLDER / "bring.png", clip={"x": 0, "y": 0, "width": 1280, "height": 620})
        page.click("#compare")
        page.wait_for_selector("[data-netweave-viewer]")
        page.wait_for_timeout(2500)
        page.screenshot(path=FOLDER / "compare.png")
        page.get_by_text("Share", exact=True).click()
        page.get_by_role("button", name="Create a link").click()
        page.wait_for_selector("#address")
        page.wait_for_timeout(2000)
        page.screenshot(path=FOLDER / "share.png", clip={"x": 0, "y": 0, "width": 1280, "height": 420})
        browser.close()


if __name__ == "__main__":
    main()
