"""Which generated page goes where."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docs import commands, python

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/command-line.md": commands.page,
    "docs/reference/python.md": python.page,
}
"""Whole pages, by their path in the repository."""

if find_spec("torch"):  # the page lists torch's lowerings
    from tools.docs import operators

    PAGES["docs/operators.md"] = operators.page


def write_all() -> None:
    """Write every page, and say which ones changed."""
    for name, make in PAGES.items():
        path, text = ROOT / name, make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {name}")
