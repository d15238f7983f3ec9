"""Attributes of nodes as Python values, and stored tensors as arrays."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError
from netweave.graph.budget import MAX_AXES, MAX_ELEMENTS, MAX_FILLED, num_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message

_STORED = {
    "FLOAT": (np.float32, "float_val"),
    "DOUBLE": (np.float64, "double_val"),
    "HALF": (np.float16, "half_val"),
    "BFLOAT16": (ml_dtypes.bfloat16, "half_val"),
    "INT8": (np.int8, "int_val"),
    "INT16": (np.int16, "int_val"),
    "INT32": (np.int32, "int_val"),
    "INT64": (np.int64, "int64_val"),
    "UINT8": (np.uint8, "int_val"),
    "UINT16": (np.uint16, "int_val"),
    "UINT32": (np.uint32, "uint32_val"),
    "UINT64": (np.uint64, "uint64_val"),
    "BOOL": (np.bool_, "bool_val"),
}
"""Element types that a net computes with, and the field of TensorProto that lists such values."""

DTYPES: dict[str, np.dtype[Any]] = {f"DT_{name}": np.dtype(dtype) for name, (dtype, _) in _STORED.items()}
_VALUES = {f"DT_{name}": field for name, (_, field) in _STORED.items()}

_PLAIN = ("s", "i", "f", "b", "type", "placeholder")


class Function:
    """A function that an attribute names."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"function {self.name!r}"


def attribute(message: Message, *, place: str) -> Any:
    """Return the value of an attribute: a number, bytes, the name of a type, sizes, an array, a list.

    Raises:
        ReadError: A stored tensor is damaged.
    """
    for name in _PLAIN:
        if name in message:
            return message[name]
    if "shape" in message:
        return sizes(message["shape"])
    if "tensor" in message:
        return array(message["tensor"], place=place)
    if "func" in message:
        return Function(message["func"]["name"])
    return _list(message["list"], place=place) if "list" in message else None


def _list(message: Message, *, place: str) -> list[Any]:
    for name in message:
        if name == "shape":
            return [sizes(item) for item in message[name]]
        if name == "tensor":
            return [array(item, place=place) for item in message[name]]
        if name == "func":
            return [Function(item["name"]) for item in message[name]]
        return list(message[name])
    return []


def sizes(message: Message) -> tuple[int | None, ...] | None:
    """Return the sizes of a shape, None for an open one; None as a whole if the rank is open."""
    if message["unknown_rank"]:
        return None
    return tuple(dim["size"] if dim["size"] >= 0 else None for dim in message["dim"])


def array(message: Message, *, place: str) -> np.ndarray:
    """Return a stored tensor; a list of values that is too short goes on with its last one.

    Raises:
        ReadError: Its sizes and its values do not fit together, or its type is not a number.
    """
    kind = str(message["dtype"])
    shape = sizes(message["tensor_shape"])
    if shape is None or any(size is None for size in shape):
        raise ReadError("contains a stored tensor with open sizes", place=place)
    whole = tuple(int(size or 0) for size in shape)
    count = num_elements(whole)
    if count is None:
        raise ReadError(
            f"contains a stored tensor of more than {MAX_ELEMENTS:,} elements or {MAX_AXES} axes", place=place
        )
    if kind == "DT_STRING":
        return strings(message["string_val"], whole, place=place)
    if kind not in DTYPES:
        raise ReadError(f"contains a stored tensor of type {kind}, which is not supported", place=place)
    dtype = DTYPES[kind]
    content = message["tensor_content"]
    if content:
        return from_bytes(content, dtype, whole, place=place)
    return _filled(_values(message, kind, dtype), whole, count, place=place)


def from_bytes(content: bytes, dtype: np.dtype[Any], shape: tuple[int, ...], *, place: str) -> np.ndarray:
    """Return the array that some bytes are, in little endian.

    Raises:
        ReadError: They are too few or too many.
    """
    wanted = prod(shape) * dtype.itemsize
    if len(content) != wanted:
        raise ReadError(
            f"contains {len(content):,} bytes for a tensor of shape {list(shape)}, expected {wanted:,}",
            place=place,
        )
    return np.frombuffer(content, dtype.newbyteorder("<") if dtype.kind in "iuf" else dtype).reshape(shape)


def strings(items: Sequence[bytes], shape: tuple[int, ...], *, place: str) -> np.ndarray:
    """Return an array of bytes objects."""
    if len(items) != prod(shape):
        raise ReadError(f"contains {len(items)} strings for the shape {list(shape)}", place=place)
    texts = np.empty(len(items), dtype=object)
    texts[:] = list(items)
    return texts.reshape(shape)


def num_filled(message: Message) -> int:
    """Return how many elements of an attribute's stored tensors repeat the last value that is given."""
    tensors = [message["tensor"]] if "tensor" in message else []
    if "list" in message and "tensor" in message["list"]:
        tensors += message["list"]["tensor"]
    return sum(map(_num_filled, tensors))


def _num_filled(tensor: Message) -> int:
    shape, name = sizes(tensor["tensor_shape"]), _VALUES.get(str(tensor["dtype"]))
    if shape is None or tensor["tensor_content"] or name is None:
        return 0
    filled = (num_elements(size or 0 for size in shape) or 0) - len(tensor[name])
    return filled if 0 < filled <= MAX_FILLED else 0  # of others ``array`` says what is wrong


def _values(message: Message, kind: str, dtype: np.dtype[Any]) -> np.ndarray:
    values = message[_VALUES[kind]]
    if kind in {"DT_HALF", "DT_BFLOAT16"}:
        return (np.asarray(values, dtype=np.int64) & 0xFFFF).astype(np.uint16).view(dtype)
    return np.asarray(values).astype(dtype)


def _filled(values: np.ndarray, shape: tuple[int, ...], count: int, *, place: str) -> np.ndarray:
    if values.size > count:
        raise ReadError(f"contains {values.size:,} values for a tensor of shape {list(shape)}", place=place)
    if count - values.size > MAX_FILLED:
        raise ReadError(
            f"contains {values.size:,} values for a tensor of {count:,} elements; at most {MAX_FILLED:,} may "
            "repeat the last of them",
            place=place,
        )
    if not values.size:
        values = np.zeros(1, values.dtype)
    if values.size == 1:
        return np.broadcast_to(values, (count,)).reshape(shape) if count else np.empty(shape, values.dtype)
    return np.concatenate([values, np.repeat(values[-1:], count - values.size)]).reshape(shape)
