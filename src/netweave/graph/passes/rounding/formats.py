"""Number formats with fewer bits than float32: their rounding unit, their range, and rounding to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

FLOATS = {ir.DataType.FLOAT16: "float16", ir.DataType.BFLOAT16: "bfloat16"}
"""Floating-point formats with fewer bits than float32, in words."""

_SIGNIFICANT_BITS = {ir.DataType.FLOAT: 24, ir.DataType.FLOAT16: 11, ir.DataType.BFLOAT16: 8}

_SMALLEST = {ir.DataType.FLOAT: 2.0**-149, ir.DataType.FLOAT16: 2.0**-24, ir.DataType.BFLOAT16: 2.0**-133}
"""Distance of neighbouring subnormal numbers."""


def format_name(dtype: ir.DataType) -> str:
    """Return the name that users know a format by; for integers the bits, signed or not.

    >>> format_name(ir.DataType.BFLOAT16), format_name(ir.DataType.UINT8)
    ('bfloat16', 'int8')
    """
    return FLOATS.get(dtype, f"int{dtype.bitwidth}")


def float_bound(values: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """Return how far each number may be from its own image in a floating-point format.

    A whole spacing and not half of one: some converters cut bits off instead of rounding, and on a tie the
    other neighbour is as near.
    """
    spacing = np.abs(values) * 2.0 ** (1 - _SIGNIFICANT_BITS[dtype])
    return np.asarray(np.maximum(spacing, _SMALLEST[dtype]))


def round_to_float(values: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """Return numbers rounded to a floating-point format, as float32; beyond its range they are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32).astype(dtype.numpy()).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False)
class Quantiser:
    """Quantisation parameters: ``real = (integer - zero_point) * scale`` (ONNX DequantizeLinear).

    Attributes:
        dtype: Type of the integers.
        scale: One number, one per slice of ``axis``, or one per block of it.
        zero_point: As many integers, or one.
        axis: The axis that several scales run along, counted from the front.
        block_size: Elements of the axis that share a scale; 0 if the scales are not by block.
    """

    dtype: ir.DataType
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int = 0
    block_size: int = 0

    @property
    def is_per_tensor(self) -> bool:
        """True if there is one scale for the whole tensor."""
        return self.scale.size == 1

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer."""
        return int(self.dtype.min), int(self.dtype.max)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest real number that some slice can hold."""
        low, high = self.limits
        zero, scale = self.zero_point.astype(np.float64), self.scale.astype(np.float64)
        return float(((low - zero) * scale).min()), float(((high - zero) * scale).max())

    def has_scales_of(self, other: Quantiser) -> bool:
        """Return whether scales and zero points are those of another one; scales up to their last digits."""
        has_zeros = np.array_equal(self.zero_point, other.zero_point)
        return (
            has_zeros
            and self.scale.shape == other.scale.shape
            and np.allclose(self.scale, other.scale, 1e-5, 0)
        )

    def spread(self, parameter: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Shape scales or zero points so that they broadcast against a tensor."""
        if parameter.size == 1:
            return parameter.reshape(())
        if self.block_size:
            return parameter.repeat(self.block_size, self.axis).take(range(shape[self.axis]), self.axis)
        return parameter.reshape(-1, *[1] * (len(shape) - 1 - self.axis))

    def steps(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return the distance of neighbouring values, shaped to broadcast against a tensor."""
        return self.spread(self.scale.astype(np.float64), shape)

    def dequantised(self, integers: np.ndarray) -> np.ndarray:
        """Return the real numbers that integers stand for, as float64."""
        zero = self.spread(self.zero_point.astype(np.int64), integers.shape)
        real: np.ndarray = (integers.astype(np.int64) - zero) * self.steps(integers.shape)
        return real

    def quantised(self, values: np.ndarray) -> np.ndarray:
        """Return the nearest integers, halves to even, kept within the type; int64."""
        zero = self.spread(self.zero_point.astype(np.int64), values.shape)
        low, high = self.limits
        steps = np.rint(values / self.steps(values.shape)) + zero
        integers: np.ndarray = np.clip(steps, low, high).astype(np.int64)
        return integers


@dataclass(frozen=True, slots=True, eq=False)
class StoredRounding:
    """Rounding of a stored array to fewer bits.

    Attributes:
        dtype: Type of the stored numbers.
        quantiser: What integers stand for; None for floating-point formats.
        integers: The integers; None for floating-point formats.
        uncertainty: How far each number of the reference may itself be from the one that was rounded, where
            the reference is stored in fewer bits too; None where it is exact.
    """

    dtype: ir.DataType
    quantiser: Quantiser | None = None
    integers: np.ndarray | None = None
    uncertainty: np.ndarray | None = None

    def bound(self, values: np.ndarray) -> np.ndarray:
        """Return how far numbers may be from what this format holds in their place, element by element."""
        if self.quantiser is None:
            bound = float_bound(values, self.dtype)
        else:
            half = self.quantiser.steps(values.shape) / 2
            # what the scale itself lost when it was computed and stored in float32
            bound = np.asarray(half * (1 + 1e-4) + np.abs(values) * 1e-6)
        return bound if self.uncertainty is None else np.asarray(bound + self.uncertainty)

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """Return what this format holds in the place of numbers, as float32."""
        if self.quantiser is None:
            return round_to_float(values, self.dtype)
        return self.quantiser.dequantised(self.quantiser.quantised(values)).astype(np.float32)
