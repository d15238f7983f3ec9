"""Keras 3's learning-rate schedules (keras/src/optimizers/schedules at 3.15)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.training.optim.policy import Policy, policy
from netweave.training.settings import require

if TYPE_CHECKING:
    from collections.abc import Sequence


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
