"""Tensors of a subgraph: their sizes, types and scales, and what the file stores of them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError
from netweave.formats.tensorflow.lite.quantization import Quantization, quantization_of
from netweave.graph import StoredFormat
from netweave.graph.budget import num_elements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.flatbuffers import Record

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
