"""Keras 3's initializers (keras/src/initializers at 3.15): fans are those of a kernel (sizes..., in, out)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.training.optim.filler import Shape, filler

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a normal distribution without what lies beyond two deviations."""


def fans(shape: Shape) -> tuple[float, float]:
    """Return how many inputs and outputs an element of a kernel has (``compute_fans``).

    >>> fans((3, 3, 4, 8))
    (36.0, 72.0)
    """
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    field = math.prod(shape[:-2])
    return float(shape[-2] * field), float(shape[-1] * field)


def _truncated(generator: np.random.Generator, shape: Shape, deviation: float) -> np.ndarray:
    """Draw from a normal distribution again and again where a number lies beyond two deviations."""
    values = generator.standard_normal(shape)
    while (far := np.abs(values) > 2.0).any():
        values[far] = generator.standard_normal(int(far.sum()))
    return values * deviation


@filler("keras.Zeros")
def zeros(shape: Shape, generator: np.random.Generator) -> np.ndarray:
    """Return zeros."""
    return np.zeros(shape)


@filler("keras.Ones")
def ones(shape: Shape, generator: np.random.Generator) -> np.ndarray:
    """Return ones."""
    return np.ones(shape)


@filler("keras.Constant")
def constant(shape: Shape, generator: np.random.Generator, value: Any = 0.0) -> np.ndarray:
    """Return one value, or an array that is broadcast."""
    return np.broadcast_to(np.asarray(value, np.float64), shape)


@filler("keras.Identity")
def identity(shape: Shape, generator: np.random.Generator, gain: float = 1.0) -> np.ndarray:
    """Return ones on the diagonal of a matrix, times a gain."""
    if len(shape) != 2:
        raise ValueError(f"the shape is {shape}, expected a matrix")
    return np.eye(*shape) * gain


@filler("keras.RandomNormal")
def random_normal(
    shape: Shape, generator: np.random.Generator, mean: float = 0.0, stddev: float = 0.05, **ignored: Any
) -> np.ndarray:
    """Draw from a normal distribution."""
    return generator.normal(mean, stddev, shape)


@filler("keras.TruncatedNormal")
def truncated_normal(
    shape: Shape, generator: np.random.Generator, mean: float = 0.0, stddev: float = 0.05, **ignored: Any
) -> np.ndarray:
    """Draw from a normal distribution without what lies beyond two deviations."""
    return mean + _truncated(generator, shape, stddev)


@filler("keras.RandomUniform")
def random_uniform(
    shape: Shape, generator: np.random.Generator, minval: float = -0.05, maxval: float = 0.05, **ignored: Any
) -> np.ndarray:
    """Draw evenly between two numbers."""
    return generator.uniform(minval, maxval, shape)


@filler("keras.VarianceScaling")
def variance_scaling(
    shape: Shape,
    generator: np.random.Generator,
    scale: float = 1.0,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    input_axes: Sequence[int] | None = None,
    output_axes: Sequence[int] | None = None,
    **ignored: Any,
) -> np.ndarray:
    """Draw with the variance ``scale`` divided by a fan."""
    fan_in, fan_out = fans(shape)
    if input_axes is not None and output_axes is not None:
        fan_in, fan_out = (float(math.prod(shape[at] for at in axes)) for axes in (input_axes, output_axes))
    wanted = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}
    if mode not in wanted:
        raise ValueError(f"mode is {mode!r}, expected fan_in, fan_out or fan_avg")
    variance = scale / max(1.0, wanted[mode])
    match distribution.lower():
        case "normal" | "truncated_normal":
            return _truncated(generator, shape, math.sqrt(variance) / TRUNCATED_DEVIATION)
        case "untruncated_normal":
            return generator.normal(0.0, math.sqrt(variance), shape)
        case "uniform":
            limit = math.sqrt(3.0 * variance)
            return generator.uniform(-limit, limit, shape)
    raise ValueError(f"distribution is {distribution!r}, expected uniform, truncated_normal or normal")


def _enter_scaled(name: str, scale: float, mode: str, distribution: str) -> None:
    @filler(f"keras.{name}")
    def scaled(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
        settings = {"scale": scale, "mode": mode, "distribution": distribution}
        return variance_scaling(shape, generator, **{**ignored, **settings})


for _name, _scale, _mode in (("Glorot", 1.0, "fan_avg"), ("Lecun", 1.0, "fan_in"), ("He", 2.0, "fan_in")):
    _enter_scaled(f"{_name}Uniform", _scale, _mode, "uniform")
    _enter_scaled(f"{_name}Normal", _scale, _mode, "truncated_normal")


@filler("keras.Orthogonal")
def orthogonal(shape: Shape, generator: np.random.Generator, gain: float = 1.0, **ignored: Any) -> np.ndarray:
    """Return a matrix with orthogonal rows or columns, of all axes but the last by the last."""
    if len(shape) < 2:
        raise ValueError(f"the shape is {shape}, expected at least two axes")
    rows, columns = math.prod(shape[:-1]), shape[-1]
    drawn = generator.standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(drawn)
    q = q * np.sign(np.diag(r))
    return gain * (q if rows >= columns else q.T).reshape(shape)
