"""Tensors of TensorFlow Lite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError
from netweave.graph import StoredFormat
from netweave.graph.costs import num_elements

if TYPE_CHECKING:
    from netweave.files.flatbuffers import Record
    from netweave.formats.lowering.channels_last import ChannelsLastLayer, Tensor


# https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec: activations have
# one scale, weights one or one for each index of an axis. Here weights are read as the real numbers that
# they stand for, operators compute with real numbers, and what they give is brought to the integers of the
# output and back. The interpreter sums integers instead, and rounds once more than this: it differs by a
# step at most, where no error was handed on.


@dataclass(frozen=True, slots=True, eq=False)
class Quantization:
    """The scale of a tensor.

    Attributes:
        scale: One number, or one for each index of an axis.
        zero_point: As many integers.
        axis: The axis, where there is more than one number.
        dtype: The type of the integers.
    """

    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    dtype: np.dtype[Any]

    def equals(self, other: Quantization | None) -> bool:
        """Return whether two tensors have the same integers for the same numbers."""
        return (
            other is not None
            and self.dtype == other.dtype
            and np.array_equal(self.scale, other.scale)
            and np.array_equal(self.zero_point, other.zero_point)
        )

    def real(self, array: np.ndarray) -> np.ndarray:
        """Return the real numbers that stored integers stand for."""
        shape = [1] * array.ndim
        if self.scale.size > 1:
            shape[self.axis] = self.scale.size
        zero = self.zero_point.astype(np.int32).reshape(
            shape if self.zero_point.size > 1 else [1] * array.ndim
        )
        with np.errstate(over="ignore"):  # a damaged scale
            return np.asarray((array.astype(np.int32) - zero) * self.scale.reshape(shape), np.float32)

    def rounded(self, ctx: ChannelsLastLayer, x: Tensor) -> Tensor:
        """Return a computed tensor with the real numbers that the integers can stand for."""
        scale = ctx.constant(self.scale.reshape(()), dtype=np.float32)
        zero = ctx.constant(self.zero_point.reshape(()), dtype=self.dtype)
        return ctx.unary(
            "DequantizeLinear", ctx.unary("QuantizeLinear", x, more=[scale, zero]), more=[scale, zero]
        )


ROUNDED = frozenset(map(np.dtype, (np.int8, np.uint8, np.int16)))
"""Types of quantised activations; a bias has int32, and is never computed."""


def quantization_of(
    record: Record | None, dtype: np.dtype[Any], shape: tuple[int, ...], *, place: str
) -> Quantization | None:
    """Return the scale of a tensor; None for one that holds numbers as they are.

    Raises:
        ReadError: Its numbers are not those of the tensor.
        UnsupportedError: It has scales of another kind.
    """
    if record is None or dtype.kind not in "iu":
        return None
    if record["details_type"]:
        raise UnsupportedError(
            "has scales for blocks, or of a kind of its own, which are not read", place=place
        )
    scale, zero_point, axis = record["scale"], record["zero_point"], int(record["quantized_dimension"])
    if not scale.size:
        return None
    if not zero_point.size:
        zero_point = np.zeros(1, np.int64)
    if scale.size > 1 and (not 0 <= axis < len(shape) or shape[axis] != scale.size):
        raise ReadError(
            f"has {scale.size:,} scales for axis {axis} of {list(shape)}, expected one for each index",
            place=place,
        )
    if zero_point.size not in {1, scale.size}:
        raise ReadError(f"has {zero_point.size:,} zero points for {scale.size:,} scales", place=place)
    limits = np.iinfo(dtype)
    if not np.all(np.isfinite(scale)) or np.any(scale < 0):
        raise ReadError("has a scale that is negative or no number, expected more than 0", place=place)
    if np.any((zero_point < limits.min) | (zero_point > limits.max)):
        raise ReadError(f"has a zero point outside of {dtype.name}", place=place)
    return None if scale.size == 1 and not scale[0] else Quantization(scale, zero_point, axis, dtype)


DTYPES: dict[str, np.dtype[Any]] = {
    "FLOAT32": np.dtype("<f4"),
    "FLOAT16": np.dtype("<f2"),
    "BFLOAT16": np.dtype(ml_dtypes.bfloat16),
    "FLOAT64": np.dtype("<f8"),
    "INT4": np.dtype("<i1"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "BOOL": np.dtype("?"),
}
"""Element types that a net computes with; INT4 has two numbers in a byte where it is stored."""

TENSORFLOW = {"FLOAT32": "FLOAT", "FLOAT64": "DOUBLE", "FLOAT16": "HALF"}
"""TensorFlow's names of types, where they are others."""


def tensorflow_type(kind: str) -> str:
    """Return TensorFlow's name of an element type.

    >>> tensorflow_type("FLOAT32"), tensorflow_type("INT32")
    ('DT_FLOAT', 'DT_INT32')
    """
    return f"DT_{TENSORFLOW.get(kind, kind)}"


@dataclass(frozen=True, slots=True, eq=False)
class LiteTensor:
    """A tensor of a subgraph.

    Attributes:
        name: The first of its names: a converter that joins operators joins their names by ``;``.
        type: Its element type, as the schema calls it.
        shape: Its sizes, None for those that are open.
        array: What the file stores, as the real numbers that it stands for; None for a computed tensor.
        quantization: How its integers stand for real numbers.
    """

    name: str
    type: str
    shape: tuple[int | None, ...]
    array: np.ndarray | None = None
    quantization: Quantization | None = None

    @property
    def stored_format(self) -> StoredFormat | None:
        """The format of its stored numbers, if of fewer bits than float32."""
        if self.quantization is None:
            return StoredFormat(self.type.lower()) if self.type in {"FLOAT16", "BFLOAT16"} else None
        scale, zero = self.quantization.scale.tolist(), self.quantization.zero_point.tolist()
        return StoredFormat(self.type.lower(), tuple(scale), tuple(zero), self.quantization.axis)

    @property
    def real_type(self) -> str:
        """TensorFlow's name of the type that its numbers have here."""
        return "DT_FLOAT" if self.quantization is not None else tensorflow_type(self.type)


def tensor_of(record: Record, buffers: Sequence[Record], content: bytes, *, place: str) -> LiteTensor:
    """Return a tensor.

    Raises:
        ReadError: What it stores is not what its sizes and type say.
        UnsupportedError: It is stored in a way that is not read.
    """
    name = record["name"].partition(";")[0].removesuffix(":0")
    where = f"{place}: tensor {name!r:.200}"
    sizes = tuple(int(size) for size in record["shape"])
    signature = tuple(int(size) for size in record["shape_signature"])
    kind = record["type"]
    shape = tuple(None if size < 0 else size for size in signature or sizes)
    if num_elements(size for size in sizes) is None:
        raise ReadError(f"has the sizes {list(sizes)!s:.80}, which no array can have", place=where)
    stored = _stored(record["buffer"], buffers, content, where)
    if kind not in DTYPES:
        if stored.size:
            raise UnsupportedError(f"stores elements of type {kind}, which is not supported", place=where)
        return LiteTensor(name, kind, shape)
    dtype = DTYPES[kind]
    scale = quantization_of(record["quantization"], dtype, sizes, place=where)
    if not stored.size or record["is_variable"]:
        return LiteTensor(name, kind, shape, None, scale)
    if record["sparsity"] is not None or record["external_buffer"]:
        raise UnsupportedError(
            "is stored as a sparse array or in another file, which is not read", place=where
        )
    array = _array(stored, sizes, kind, where)
    return LiteTensor(name, kind, sizes, array if scale is None else scale.real(array), scale)


def _stored(index: int, buffers: Sequence[Record], content: bytes, place: str) -> np.ndarray:
    """Return the bytes of a buffer, which lie in it or behind all tables."""
    if index >= len(buffers):
        raise ReadError(f"is stored in buffer {index} of {len(buffers)}", place=place)
    buffer = buffers[index]
    offset, size = buffer["offset"], buffer["size"]
    if offset <= 1:  # 0 and 1 say that the data lies in the buffer itself
        data: np.ndarray = buffer["data"]
        return data
    if offset + size > len(content):
        raise ReadError(
            f"is stored at bytes {offset:,} to {offset + size:,} of {len(content):,}; was the file copied "
            "whole?",
            place=place,
        )
    return np.frombuffer(content, np.uint8, size, offset)


def _array(stored: np.ndarray, sizes: tuple[int, ...], kind: str, place: str) -> np.ndarray:
    dtype, count = DTYPES[kind], prod(sizes)
    expected = (count + 1) // 2 if kind == "INT4" else count * dtype.itemsize
    if stored.size != expected:
        raise ReadError(
            f"stores {stored.size:,} bytes, expected {expected:,} for {'x'.join(map(str, sizes)) or 'one'} "
            f"{kind}",
            place=place,
        )
    if kind == "INT4":
        pairs = np.stack([stored << 4, stored], axis=-1).view(np.int8) >> 4
        return pairs.reshape(-1)[:count].reshape(sizes)
    return stored.view(dtype).reshape(sizes)
