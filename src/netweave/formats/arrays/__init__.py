"""Weights alone: ``.npy`` with a pickled dict of arrays, ``.npz``, ``.safetensors`` and ``.gguf``.

Such a file says no net, only what some net stores. It is read as a net of layers with parameters and without
nodes: it can be looked at, and compared as weights with a net or with other weights.
"""

from __future__ import annotations

from netweave.files import Source
from netweave.formats.arrays.reader import kind_of

__all__ = ["match"]


def match(source: Source) -> bool:
    """Return whether the file holds arrays by name, by its first bytes and the end of its name."""
    return kind_of(source.net, source.head(16)) is not None
