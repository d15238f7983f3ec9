"""How fast the page of a large comparison opens and moves, in headless chromium, by the browser's own trace.

::

    python -m benchmarks viewer [--blocks 360] [--removed 5] [--alone 1250] [--runs 5] [--folder FOLDER]

A pair of large residual nets is compared and its page opened several times: the time from the begin of the
navigation until the nets are drawn, the longest task of the page's main thread, and the frames while the
wheel moves and zooms, folded as it opens and with everything unfolded. Then one net of ``--alone`` blocks
(16 nodes each) is opened. Pages that lie in the folder are not made again. Needs the front end, Playwright
and chromium.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

import netweave
from benchmarks.record import Namespace, Record, option
from benchmarks.scale.generate import write_pair
from benchmarks.worker import spread
from netweave.api import save_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
CATEGORIES = ["toplevel", "devtools.timeline", "blink.user_timing"]
ORIENTATIONS = [(240, False)] * 20 + [(240, True)] * 10 + [(-240, False)] * 20 + [(-240, True)] * 10
"""Turns of the wheel and whether Ctrl is held: down the net, out until all is in sight, up, and in again."""

COLLECT = """
window.frames_ = [];
window.step_ = (now) => { window.frames_.push(now); window.request_ = requestAnimationFrame(window.step_); };
window.request_ = requestAnimationFrame(window.step_);
"""
"""Notes the time of every frame."""


@dataclass(frozen=True, slots=True)
class Opened:
    """One opening of a page; times in milliseconds.

    Attributes:
        shown: From the begin of the navigation until both nets are drawn.
        boxes: Boxes that are drawn at first, and with everything unfolded.
        longest: Longest task while opening, and while moving folded and unfolded.
        frames: Times between frames while moving, folded and unfolded.
    """

    shown: float
    boxes: tuple[int, int]
    longest: tuple[float, float, float]
    frames: tuple[list[float], list[float]]


def open_page(browser: Browser, file: Path, *, unfold: bool) -> Opened:
    """Open a page once, move it, unfold everything and move it again."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    longest, frames, boxes = [], [], []
    browser.start_tracing(page=page, categories=CATEGORIES)
    page.goto(file.as_uri())
    page.wait_for_selector(".nw-viewer[data-state=shown]", timeout=120_000)
    longest.append(longest_task(browser.stop_tracing()))
    shown = page.evaluate("performance.getEntriesByName('netweave-shown')[0].startTime")
    for unfolded in (False, True):
        if unfolded and unfold:
            page.get_by_role("button", name="Expand all blocks").click()
            _wait_for_layout(page, boxes[0])
        boxes.append(_boxes(page))
        browser.start_tracing(page=page, categories=CATEGORIES)
        frames.append(move(page))
        longest.append(longest_task(browser.stop_tracing()))
    page.close()
    return Opened(shown, tuple(boxes), tuple(longest), tuple(frames))  # type: ignore[arg-type]


def _boxes(page: Page) -> int:
    return int(page.locator(".nw-viewer").get_attribute("data-boxes") or 0)


def _wait_for_layout(page: Page, before: int) -> None:
    for _ in range(1200):
        if _boxes(page) != before:
            return
        page.wait_for_timeout(50)
    raise RuntimeError("the layout did not end within a minute")


def move(page: Page) -> list[float]:
    """Turn the wheel and return the times between frames in milliseconds."""
    box = page.locator("canvas[role=application]").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.keyboard.press("0")
    page.evaluate(COLLECT)
    for turn, zooms in ORIENTATIONS:
        if zooms:
            page.keyboard.down("Control")
        page.mouse.wheel(0, turn)
        page.keyboard.up("Control")
    times = page.evaluate("(cancelAnimationFrame(window.request_), window.frames_)")
    return [later - earlier for earlier, later in pairwise(times)]


def longest_task(trace: bytes) -> float:
    """Return the longest task of a page's main thread in a trace, in milliseconds."""
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event.get("name") == "thread_name" and event["args"].get("name") == "CrRendererMain"
    }
    tasks = [
        event["dur"] / 1000
        for event in events
        if event.get("ph") == "X" and (event["pid"], event["tid"]) in main and "RunTask" in event["name"]
    ]
    return max(tasks, default=float("nan"))


def report(name: str, runs: list[Opened]) -> dict[str, Any]:
    """Print the medians and the worst of several openings, and return them."""
    figures: dict[str, Any] = {
        "shown ms": spread([run.shown for run in runs], 0),
        "longest task ms": round(max(run.longest[0] for run in runs)),
    }
    for index, how in enumerate(("as it opens", "unfolded")):
        frames = [frame for run in runs for frame in run.frames[index]]
        figures[how] = {
            "boxes": runs[0].boxes[index],
            "frame ms": spread(frames, 1),
            "longest task ms": round(max(run.longest[index + 1] for run in runs)),
        }
    print(name, json.dumps(figures))
    return figures


def write_pages(folder: Path, *, blocks: int, removed: int, alone: int) -> list[Path]:
    """Write the page of a compared pair and that of one larger net, unless they are there."""
    pair, one = folder / f"pair-{blocks}-{removed}.html", folder / f"one-{alone}.html"
    if not pair.exists():
        a, b = (netweave.load(file) for file in write_pair(folder, blocks=blocks, removed=removed))
        save_page(netweave.compare(a, b), pair)
    if not alone:
        return [pair]
    if not one.exists():
        save_page(netweave.load(write_pair(folder, blocks=alone, removed=0)[0]), one)
    return [pair, one]


OPTIONS = (
    option("--blocks", default=360),
    option("--removed", default=5),
    option("--alone", default=1250, help="Blocks of the single net; 0 for none."),
    option("--runs", default=5),
    option("--folder", type=Path, help="Where the pages are kept."),
)


def main(options: Namespace, record: Record) -> None:
    """Write the pages, open them and print the times."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as driver:
        folder = options.folder or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        pages = write_pages(folder, blocks=options.blocks, removed=options.removed, alone=options.alone)
        chromium = shutil.which("chromium")
        print(f"headless chromium, {os.cpu_count()} cores, no GPU, 1280 by 720")
        for file in pages:
            browser = driver.chromium.launch(executable_path=chromium, args=FLAGS)
            runs = [open_page(browser, file, unfold=True) for _ in range(options.runs)]
            record.results[file.stem] = report(file.name, runs)
            browser.close()
    record.save()
