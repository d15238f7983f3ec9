"""The way of a comparison: signals, seeds, extension, grafts, explanation, verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.compare.comparison import Comparison
    from netweave.graph import Graph


def compare(a: Graph, b: Graph, *, progress: Callable[[str], None] | None = None) -> Comparison:
    """Compare two nets."""
    raise NotImplementedError
