"""Nets and comparisons as pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.atomic import write_file
from netweave.graph import Graph
from netweave.viewer import comparison_page, net_page

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.comparison import Comparison


def save_page(shown: Graph | Comparison, file: str | Path) -> None:
    """Write a net or a comparison as a single HTML file that a browser opens offline.

    Args:
        shown: The net or comparison.
        file: The file.

    Raises:
        UsageError: This is a source checkout whose front end is not built.
        WriteError: The file cannot be written; the old one is untouched.
    """
    write_file(file, net_page(shown) if isinstance(shown, Graph) else comparison_page(shown))
