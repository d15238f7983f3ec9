"""Nets of Keras 2 and 3: ``.keras``, ``.h5``, and JSON beside weights; without Keras. Its code, with it.

The way of the data: ``opening`` finds the configuration and the arrays, ``config`` makes calls of layers of
it, ``reader`` walks them in ``order`` and gives each to its function in ``layers/`` with a ``call.Call``;
``weights`` knows how each age of files stores arrays. Layers are written with channels first by
``lowering/channels_last``.
To add a layer see docs/how-to/add-a-keras-layer.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.keras.reader import match, read

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files import OutputFiles
    from netweave.graph import Graph

__all__ = ["match", "read", "write"]


def write(graph: Graph, path: Path, *, random_weights: bool = False) -> OutputFiles:
    """Write a net as source for Keras 3 with its weights; see ``netweave.formats.keras.source``."""
    from netweave.formats.keras import source

    return source.write(graph, path, random_weights=random_weights)
