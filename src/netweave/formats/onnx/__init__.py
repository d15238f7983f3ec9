"""Under construction in its own branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.graph import Graph


def write(graph: Graph, path: Path) -> None:
    """Write a net as an ONNX file."""
    raise NotImplementedError
