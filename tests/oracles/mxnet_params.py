"""A writer of MXNet's .params files in all four versions, by hand from the description of the format."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

LIST_MAGIC = 0x112
MAGICS = {1: 0xF993FAC8, 2: 0xF993FAC9, 3: 0xF993FACA}
FLAGS = {
    "float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6, "bool": 7,
    "int16": 8, "uint16": 9, "uint32": 10, "uint64": 11,
}  # fmt: skip
CPU = struct.pack("<ii", 1, 0)
DENSE, ROW_SPARSE, CSR = 0, 1, 2


def params(arrays: Mapping[str, np.ndarray | bytes], *, version: int = 2) -> bytes:
    """Return a file of arrays by name; one given as bytes is a record of its own making.

    Args:
        arrays: Values by name, as a checkpoint writes them: ``arg:conv_weight``.
        version: 0 to 3.
    """
    records = [item if isinstance(item, bytes) else record(item, version) for item in arrays.values()]
    names = [struct.pack("<Q", len(name.encode())) + name.encode() for name in arrays]
    head = struct.pack("<QQQ", LIST_MAGIC, 0, len(records))
    return head + b"".join(records) + struct.pack("<Q", len(names)) + b"".join(names)


def record(array: np.ndarray, version: int) -> bytes:
    """Return one dense array; one without axes is empty to all versions but the last."""
    data = np.ascontiguousarray(array)
    tail = (
        CPU + struct.pack("<i", FLAGS[array.dtype.name]) + data.astype(data.dtype.newbyteorder("<")).tobytes()
    )
    if version == 0:
        return struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape) + tail
    magic = struct.pack("<I", MAGICS[version])
    if version == 1:
        return magic + struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape) + tail
    return magic + struct.pack("<i", DENSE) + _shape(array.shape) + tail


def row_sparse(values: np.ndarray, rows: np.ndarray, shape: tuple[int, ...]) -> bytes:
    """Return a record, version 2, of an array of which only some rows are not zero."""
    return _sparse(ROW_SPARSE, values, [rows], shape)


def csr(values: np.ndarray, starts: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> bytes:
    """Return a record, version 2, of a matrix by compressed rows."""
    return _sparse(CSR, values, [starts, columns], shape)


def _sparse(kind: int, values: np.ndarray, indices: list[np.ndarray], shape: tuple[int, ...]) -> bytes:
    parts = [struct.pack("<Ii", MAGICS[2], kind), _shape(values.shape), _shape(shape), CPU]
    parts.append(struct.pack("<i", FLAGS[values.dtype.name]))
    parts += [struct.pack("<i", FLAGS["int64"]) + _shape(index.shape) for index in indices]
    parts += [values.tobytes(), *(index.astype("<i8").tobytes() for index in indices)]
    return b"".join(parts)


def _shape(shape: tuple[int, ...]) -> bytes:
    return struct.pack(f"<i{len(shape)}q", len(shape), *shape)
