"""Symbol files and files of arrays written by hand from the description of the formats, for tests."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy as np

TYPE_FLAGS = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}


def variable(name: str, **attributes: str) -> dict[str, Any]:
    """Return the node of a variable."""
    return {"op": "null", "name": name, "attrs": attributes, "inputs": []}


def node(op: str, name: str, inputs: Sequence[int | tuple[int, int]], **settings: str) -> dict[str, Any]:
    """Return the node of an operator; an input is the number of a node, or that and of its output."""
    entries = [[i, 0, 0] if isinstance(i, int) else [*i, 0] for i in inputs]
    return {"op": op, "name": name, "attrs": settings, "inputs": entries}


def symbol(nodes: Sequence[Mapping[str, Any]], *, num_outputs: int = 1, version: int = 10901) -> str:
    """Return a symbol file whose outputs are those of the last node."""
    last = len(nodes) - 1
    return json.dumps(
        {
            "nodes": nodes,
            "arg_nodes": [number for number, item in enumerate(nodes) if item["op"] == "null"],
            "heads": [[last, number, 0] for number in range(num_outputs)],
            "attrs": {"mxnet_version": ["int", version]},
        },
        indent=1,
    )


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a ``.params`` file of version 2."""
    content = struct.pack("<QQQ", 0x112, 0, len(arrays)) + b"".join(map(record_v2, arrays.values()))
    content += struct.pack("<Q", len(arrays))
    for name in arrays:
        content += struct.pack("<Q", len(name)) + name.encode()
    path.write_bytes(content)


def record_v2(array: np.ndarray) -> bytes:
    """Return one dense array as a record of version 2."""
    head = struct.pack("<Iii", 0xF993FAC9, 0, array.ndim) + struct.pack(f"<{array.ndim}q", *array.shape)
    return head + struct.pack("<iii", 1, 0, TYPE_FLAGS[array.dtype.name]) + array.tobytes()
