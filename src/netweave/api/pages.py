"""Nets and comparisons as pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.graph import Graph
from netweave.viewer import comparison_page, net_page

if TYPE_CHECKING:
    from netweave.comparison import Comparison


def save_page(shown: Graph | Comparison, file: str | Path) -> None:
    """Write a net or a comparison as a single HTML file that a browser opens offline.

    Args:
        shown: The net or comparison.
        file: The file.

    Raises:
        UsageError: The file cannot be written, or this is a source checkout whose front end is not built.
    """
    page = net_page(shown) if isinstance(shown, Graph) else comparison_page(shown)
    try:
        Path(file).write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file}: cannot be written: {error.strerror or error}") from error
