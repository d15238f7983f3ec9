"""Nets of Apache MXNet: ``NET-symbol.json`` of every age with ``NET-%04d.params``.

The files are read here (arrays in ``ndarray``); the nodes and operators of a net are those of
``netweave.symbol``, which builds the Graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.mxnet.reader import match, read

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files import OutputFiles
    from netweave.graph import Graph

__all__ = ["match", "read", "write"]


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write a net as a symbol with its params; see ``netweave.formats.mxnet.writer``."""
    from netweave.formats.mxnet import writer

    return writer.write(graph, path, random_weights=random_weights)
