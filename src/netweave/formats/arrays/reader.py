"""Reading files of arrays: what they hold, by name, as layers with parameters."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files.safetensors import read_safetensors
from netweave.files.source import MAX_BYTES, read_bytes
from netweave.formats.arrays.file_types import kind_of
from netweave.formats.arrays.pickles import read_object
from netweave.graph import graph_of_weights
from netweave.graph.budget import num_elements

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.files import Source
    from netweave.graph import Graph


_BAD_HEADER = (ArithmeticError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError)
"""What NumPy raises over a header, which it reads as an expression of Python of at most 10,000 characters."""


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
    read_kind = {"npy": _read_npy, "npz": _read_npz, "safetensors": read_safetensors}[str(kind)]
    arrays = read_kind(source.net)
    if not arrays:
        raise ReadError("holds no arrays", place=str(source.net))
    return graph_of_weights(arrays, format_name="arrays", file=str(source.net))


def _read_npy(path: Path) -> dict[str, np.ndarray]:
    place = str(path)
    file = io.BytesIO(read_bytes(path))
    try:
        major, _ = np.lib.format.read_magic(file)
        head = np.lib.format.read_array_header_1_0 if major == 1 else np.lib.format.read_array_header_2_0
        shape, _, dtype = head(file)
    except _BAD_HEADER as error:
        raise ReadError(f"is not a complete .npy file: {_first_line(error)}", place=place) from error
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
    place = str(path)
    try:
        with zipfile.ZipFile(path) as archive:
            num_bytes = sum(info.file_size for info in archive.infolist())
        if num_bytes > MAX_BYTES:
            raise UnsupportedError(f"its arrays would have {num_bytes:,} bytes", place=place)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, KeyError, NotImplementedError) as error:
        raise ReadError(
            f"is not a complete .npz file of arrays: {_first_line(error)}", place=place
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__
