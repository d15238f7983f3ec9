"""From *Compare* to the verdict and to the drawing of two large nets in the workbench, in headless chromium.

::

    python -m benchmarks scale.workbench [--blocks 1250] [--removed 5] [--json FILE]

The server and its workers run as ``netweave serve`` starts them. Both nets are dropped on page 1 and read;
then *Compare* is clicked. Measured are the seconds from the click until the page shows the verdict with the
first difference, until the job is done, and until both nets are drawn.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect, sync_playwright

from benchmarks.record import option
from benchmarks.scale.generate import write_pair
from tests.web.browser.visiting import VIEWER, drop
from tests.web.running import Workbench

if TYPE_CHECKING:
    import argparse

    from benchmarks.record import Record

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
WAIT_MS = 300_000


OPTIONS = (
    option("--blocks", default=1250),
    option("--removed", default=5),
)


def main(options: argparse.Namespace, record: Record) -> None:
    """Run it, print the figures and store them."""
    with tempfile.TemporaryDirectory() as name:
        files = write_pair(Path(name) / "nets", blocks=options.blocks, removed=options.removed)
        with Workbench(Path(name) / "data", workers=2, settings="max_seconds = 900") as bench:
            figures = measured(bench, files)
    figures |= {"load": [round(load, 1) for load in os.getloadavg()]}
    print(json.dumps(figures, indent=1))
    record.save(figures)


def measured(bench: Workbench, files: tuple[Path, Path]) -> dict[str, Any]:
    """Upload two nets, compare them, and return the figures."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(base_url=bench.url, viewport={"width": 1280, "height": 720})
        page.set_default_timeout(WAIT_MS)
        page.goto("/")
        for letter, file in zip("AB", files, strict=True):
            drop(page, letter, file)
        button = page.get_by_role("button", name="Compare", exact=True)
        expect(button).to_be_enabled(timeout=WAIT_MS)
        start = time.monotonic()
        button.click()
        early = page.locator(".early:not([hidden])")
        early.wait_for()
        verdict, sentence = time.monotonic() - start, early.inner_text()
        page.locator(".nw-viewer").wait_for(state="attached")  # the job is done, and its page is fetched
        done = time.monotonic() - start
        page.wait_for_selector(VIEWER)
        shown = time.monotonic() - start
        browser.close()
    seconds = {"verdict": verdict, "done": done, "drawn": shown}
    return {"seconds": {name: round(value, 1) for name, value in seconds.items()}, "sentence": sentence}
