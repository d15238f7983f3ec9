"""Reading files of arrays: what they hold, by name, as layers with parameters."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.gguf import read_gguf
from netweave.files.npy import read_header, read_npz
from netweave.files.safetensors import read_safetensors
from netweave.files.source import read_bytes
from netweave.formats.arrays.file_types import kind_of
from netweave.formats.arrays.pickles import read_object
from netweave.graph import graph_of_weights
from netweave.graph.budget import num_elements

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

    from netweave.files import Source
    from netweave.graph import Graph


def read(source: Source) -> Graph:
    """Read a file of arrays as a net without nodes.

    Raises:
        SourceError: The file is damaged, or holds something else than arrays by name.
        UsageError: Weights or input sizes are given, of which such a file has none.
    """
    if source.weights is not None or source.input_shapes:
        raise UsageError(
            f"{source.net} holds only weights; it takes no other weights and no input sizes",
            unknown_inputs=tuple(source.input_shapes),
        )
    kind = kind_of(source.net, source.head(16))
    readers = {"npy": _read_npy, "npz": _read_npz, "safetensors": read_safetensors, "gguf": read_gguf}
    read_kind = readers[str(kind)]
    arrays = read_kind(source.net)
    if not arrays:
        raise ReadError("holds no arrays", place=str(source.net))
    return graph_of_weights(arrays, format_name="arrays", file=str(source.net))


def _read_npy(path: Path) -> dict[str, np.ndarray]:
    place = str(path)
    file = io.BytesIO(read_bytes(path))
    shape, _, dtype = read_header(file, place=place)
    if not dtype.hasobject:
        count = num_elements(shape)
        sizes = "more elements than are read" if count is None else "x".join(map(str, shape))
        raise UnsupportedError(
            f"holds one array of {sizes or 'a single number'}, expected a dict of arrays by name; an array "
            "of inputs goes to --probe or --input",
            place=place,
        )
    return read_object(file, place=place)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    return read_npz(path, place=str(path))
