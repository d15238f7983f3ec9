"""Integers that stand for real numbers: ``real = scale * (integer - zero_point)``.

https://ai.google.dev/edge/litert/conversion/tensorflow/quantization/quantization_spec: activations have one
scale, weights one or one for each index of an axis. Here weights are read as the real numbers that they stand
for, operators compute with real numbers, and what they give is brought to the integers of the output and
back. The interpreter sums integers instead, and rounds once more than this: it differs by a step at most,
where no error was handed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError, UnsupportedError

if TYPE_CHECKING:
    from netweave.files.flatbuffers import Record
    from netweave.formats.lowering.channels_last import ChannelsLastLayer, Tensor


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
