"""Policies and initializers of Keras."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netweave.training.optim.first_values import Shape, filler
from netweave.training.optim.rule import Policy, policy
from netweave.training.settings import require


@policy("keras.constant")
@dataclass(slots=True, kw_only=True)
class Constant(Policy):
    """The rate that was last set: callbacks may change it while a fit runs.

    Attributes:
        now: The rate.
    """

    now: float = field(init=False)

    def __post_init__(self) -> None:
        self.now = self.base_rate

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.now


@policy("keras.ExponentialDecay")
@dataclass(slots=True, kw_only=True)
class ExponentialDecay(Policy):
    """n r^(i / steps), with whole exponents if it is a staircase."""

    decay_steps: float
    decay_rate: float
    staircase: bool = False

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        exponent = iteration / self.decay_steps
        return self.base_rate * self.decay_rate ** (math.floor(exponent) if self.staircase else exponent)


@policy("keras.InverseTimeDecay")
@dataclass(slots=True, kw_only=True)
class InverseTimeDecay(Policy):
    """n / (1 + r i / steps), with a whole i / steps if it is a staircase."""

    decay_steps: float
    decay_rate: float
    staircase: bool = False

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        share = iteration / self.decay_steps
        return self.base_rate / (1.0 + self.decay_rate * (math.floor(share) if self.staircase else share))


@policy("keras.PiecewiseConstantDecay")
@dataclass(slots=True, kw_only=True)
class PiecewiseConstantDecay(Policy):
    """The first value up to and with the first boundary, and so on."""

    boundaries: Sequence[float]
    values: Sequence[float]

    def __post_init__(self) -> None:
        require(
            len(self.boundaries) == len(self.values) - 1,
            f"{len(self.boundaries)} boundaries and {len(self.values)} values, expected one value more",
        )

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return float(self.values[sum(iteration > boundary for boundary in self.boundaries)])


@policy("keras.PolynomialDecay")
@dataclass(slots=True, kw_only=True)
class PolynomialDecay(Policy):
    """(n - end) (1 - i / steps)^power + end; with ``cycle``, steps grow to the next multiple above i."""

    decay_steps: float
    end_learning_rate: float = 0.0001
    power: float = 1.0
    cycle: bool = False

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        steps, at = self.decay_steps, float(iteration)
        if self.cycle:
            steps *= 1 if not iteration else math.ceil(iteration / steps)
        else:
            at = min(at, steps)
        span = self.base_rate - self.end_learning_rate
        return span * math.pow(1.0 - at / steps, self.power) + self.end_learning_rate


@policy("keras.CosineDecay")
@dataclass(slots=True, kw_only=True)
class CosineDecay(Policy):
    """From the rate, or after a linear warm-up from the target, half a cosine down to ``alpha`` times it."""

    decay_steps: float
    alpha: float = 0.0
    warmup_target: float | None = None
    warmup_steps: float = 0

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        top, at = self.base_rate, float(iteration)
        if self.warmup_target is not None:
            top = self.warmup_target
            if at <= self.warmup_steps:
                share = at / self.warmup_steps if self.warmup_steps else 1.0
                return self.base_rate + (top - self.base_rate) * share
            at -= self.warmup_steps
        share = min(at, self.decay_steps) / self.decay_steps
        return top * ((1.0 - self.alpha) * 0.5 * (1.0 + math.cos(math.pi * share)) + self.alpha)


@policy("keras.CosineDecayRestarts")
@dataclass(slots=True, kw_only=True)
class CosineDecayRestarts(Policy):
    """Half cosines down, each ``t_mul`` times as long and ``m_mul`` times as high as the one before."""

    first_decay_steps: float
    t_mul: float = 2.0
    m_mul: float = 1.0
    alpha: float = 0.0

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        share = iteration / self.first_decay_steps
        if self.t_mul == 1.0:
            restarts = math.floor(share)
            share -= restarts
        else:
            restarts = math.floor(math.log(1.0 - share * (1.0 - self.t_mul)) / math.log(self.t_mul))
            before = (1.0 - self.t_mul**restarts) / (1.0 - self.t_mul)
            share = (share - before) / self.t_mul**restarts
        cosine = 0.5 * self.m_mul**restarts * (1.0 + math.cos(math.pi * share))
        return self.base_rate * ((1.0 - self.alpha) * cosine + self.alpha)


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
