"""Whether an HTML page of a comparison is whole: ``python -m tools.whole_page PAGE``.

The parts of the file are checked. Where Chromium is, the page is also opened, and must have drawn the nets.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import sys
from pathlib import Path


def main(path: Path) -> int:
    """Say whether the page is whole, and return the exit status."""
    text = path.read_text(encoding="utf-8")
    wrong = wrong_parts(text)
    chromium = shutil.which("chromium")
    if chromium and not wrong:
        wrong = wrong_drawing(_drawn(chromium, path))
    opened = "opened in Chromium" if chromium else "not opened, since Chromium is missing"
    print(f"{path.name}: {'; '.join(wrong) or 'whole'} ({len(text):,} characters, {opened})")
    return 1 if wrong else 0


def wrong_parts(text: str) -> list[str]:
    """Return what is wrong with the parts of a page: its document, its script, its end."""
    wrong = []
    document = re.search(r'<script type="application/json" id="document">(.*?)</script>', text, re.DOTALL)
    try:
        num_groups = json.loads(document[1])["groups"]["count"] if document else 0
    except (ValueError, KeyError):
        num_groups = 0
    if not num_groups:
        wrong.append("has no document with groups of layers")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    if max(map(len, scripts), default=0) < 100_000:
        wrong.append("has no script of the viewer")
    if not text.rstrip().endswith("</html>"):
        wrong.append("is cut off")
    if re.search(r"""(?:src|href)=["']?https?:""", text.partition("<script>")[0]):
        wrong.append("loads something from elsewhere")
    return wrong


def wrong_drawing(drawn: str) -> list[str]:
    """Return what is wrong with a page that a browser has drawn."""
    boxes = re.search(r'data-boxes="(\d+)"', drawn)
    return [] if boxes and int(boxes[1]) else ["shows no boxes of layers"]


def _drawn(chromium: str, path: Path) -> str:
    """Return the text of a page once it has laid out its nets, or after ten seconds without.

    A worker lays them out, and Chromium's ``--virtual-time-budget`` does not wait for workers.
    """
    from playwright.sync_api import TimeoutError as NotDrawn
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(path.absolute().as_uri())
        with contextlib.suppress(NotDrawn):
            page.wait_for_selector('.nw-viewer[data-boxes]:not([data-boxes="0"])', timeout=10_000)
        text: str = page.content()
        browser.close()
    return text


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
