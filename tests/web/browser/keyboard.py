"""A visitor without a pointer, who after every key must have the focus somewhere, and see where."""

from __future__ import annotations

import io
import time
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Image = pytest.importorskip("PIL.Image")

MOST_TABS = 80
RING = 6
"""Pixels around an element within which its ring is."""

LEAST_CONTRAST = 3.0
"""Of a ring against what is there without it (WCAG 2.2, 1.4.11 and 2.4.13)."""

SETTLED_SECONDS = 5
"""A page scrolls smoothly to what gets the focus, and a part of it may be drawn anew first."""

FOCUS = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return { problem: "nothing has the focus" };
  const own = at.getBoundingClientRect();
  // a file input that is not seen shows the focus at its label
  const shown = own.width <= 1 ? at.closest("label") : at;
  if (!shown?.checkVisibility()) return { problem: `${at.outerHTML.slice(0, 120)} is not seen` };
  const { left, top, right, bottom } = shown.getBoundingClientRect();
  const [inRight, inBottom] = [Math.min(right, innerWidth), Math.min(bottom, innerHeight)];
  const box = [Math.max(left, 0), Math.max(top, 0), inRight, inBottom];
  if (box[2] - box[0] < 2 || box[3] - box[1] < 2)
    return { problem: `${at.outerHTML.slice(0, 120)} is out of sight` };
  const over = document.elementFromPoint((box[0] + box[2]) / 2, (box[1] + box[3]) / 2);
  if (!shown.contains(over) && !over?.contains(shown))
    return { problem: `${at.outerHTML.slice(0, 120)} is covered by ${over?.outerHTML.slice(0, 120)}` };
  return { box, name: at.outerHTML.slice(0, 120) };
}"""

HIDE_RINGS = """isHidden => {
  if (!window.noRings) {
    window.noRings = new CSSStyleSheet();
    window.noRings.replaceSync(
      "*, *::before, *::after {" +
        "outline: none !important; animation: none !important; caret-color: transparent; }"
    );
  }
  document.adoptedStyleSheets = isHidden ? [window.noRings] : [];
}"""


class Keyboard:
    """Presses keys on a page, and fails where the focus is lost, covered or without a ring."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def press(self, key: str, *, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)
            self.check()

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.check()

    def tab_to(self, target: Locator, key: str = "Tab") -> None:
        """Go to an element stop by stop, and see the ring around it."""
        for _ in range(MOST_TABS):
            self.press(key)
            if target.count() and target.evaluate("element => element === document.activeElement"):
                return self.see()
        raise AssertionError(f"{MOST_TABS} times {key} do not lead to {target}")

    def leave(self, key: str = "Enter") -> None:
        """Press a key that leads to another page."""
        self.page.keyboard.press(key)

    def check(self) -> dict:
        deadline = time.monotonic() + SETTLED_SECONDS
        while "problem" in (found := self.page.evaluate(FOCUS)):
            assert time.monotonic() < deadline, found["problem"]
            time.sleep(0.05)
        return found

    def see(self) -> None:
        """Check that the ring of the focus is drawn: without rings the page looks otherwise."""
        found = self.check()
        left, top, right, bottom = found["box"]
        size = self.page.viewport_size
        clip = {
            "x": max(left - RING, 0),
            "y": max(top - RING, 0),
            "width": min(right + RING, size["width"]) - max(left - RING, 0),
            "height": min(bottom + RING, size["height"]) - max(top - RING, 0),
        }
        pictures = []
        for is_hidden in (False, True):
            self.page.evaluate(HIDE_RINGS, is_hidden)
            picture = self.page.screenshot(clip=clip)
            pictures.append(_luminance(np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))))
        self.page.evaluate(HIDE_RINGS, False)
        dark, light = np.minimum(*pictures), np.maximum(*pictures)
        changed = ((light + 0.05) / (dark + 0.05) >= LEAST_CONTRAST).sum()
        # a line of one pixel around half of the element at least; the rest may be cut by what it lies in
        assert changed >= (right - left) + (bottom - top) - 4, f"{found['name']}: no ring ({changed} pixels)"


def _luminance(picture: np.ndarray) -> np.ndarray:
    """Return the relative luminance of every pixel, 0 to 1, as WCAG defines it."""
    channels = picture / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ np.array([0.2126, 0.7152, 0.0722])
