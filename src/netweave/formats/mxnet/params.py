"""Writing ``.params`` files as MXNet 1.x does: dense arrays in records of version 2 (``NDArray::Save``)."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np

from netweave.errors import UsageError
from netweave.formats.lowering.parameters import STATISTICS
from netweave.formats.mxnet.ndarray import FILE_MAGIC, V2
from netweave.formats.mxnet.symbol.settings import DTYPES
from netweave.graph import Graph

CPU = (1, 0)
"""The device that arrays are said to lie on: its type and number."""


def encode_params(graph: Graph, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the arrays of a net as the bytes of a ``.params`` file, with ``arg:`` and ``aux:``.

    Args:
        graph: A net of MXNet's.
        arrays: Its arrays by key.

    Raises:
        UsageError: An array of the net is missing.
    """
    missing = [key for key in graph.parameters if key not in arrays]
    if missing:
        raise UsageError(f"{graph.name}: there are no values for {', '.join(missing)}")
    prefixes = {key: "aux" if p.role in STATISTICS else "arg" for key, p in graph.parameters.items()}
    return encode_arrays({f"{prefixes[key]}:{key}": arrays[key] for key in graph.parameters})


def encode_arrays(arrays: Mapping[str, np.ndarray], *, named: bool = True) -> bytes:
    """Return arrays with names as the bytes of a ``.params`` file.

    Args:
        arrays: The arrays.
        named: Whether their names are written; MXNet loads arrays without names as a list.

    Raises:
        UsageError: MXNet has no such type of elements.
    """
    parts = [struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))]
    parts += [encode_record(name, array) for name, array in arrays.items()]
    parts.append(struct.pack("<Q", len(arrays) if named else 0))
    for name in arrays if named else ():
        written = name.encode()
        parts += [struct.pack("<Q", len(written)), written]
    return b"".join(parts)


def encode_record(name: str, array: np.ndarray) -> bytes:
    """Return one array as the bytes that a file of arrays has for it.

    Args:
        name: What the array is called in messages.
        array: The array.

    Raises:
        UsageError: MXNet has no such type of elements.
    """
    flags = {dtype: int(flag) for flag, dtype in DTYPES.items()}
    if array.dtype.name not in flags:
        raise UsageError(
            f"{name}: MXNet has no elements of type {array.dtype.name}; it has {', '.join(flags)}"
        )
    shape = array.shape or (1,)  # rank 0 would mean that there is no array
    head = struct.pack(f"<Iii{len(shape)}q", V2, 0, len(shape), *shape)
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return head + struct.pack("<iii", *CPU, flags[array.dtype.name]) + plain.tobytes()
