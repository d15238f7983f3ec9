"""MXNet's learning-rate schedulers (python/mxnet/lr_scheduler.py at 1.9.1).

They are asked with the number of the update, counted from ``first_update``: 1 since 1.0, 0 before, where
the rate was read ahead of the counting.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

from netweave.training.optim.policy import Policy, policy
from netweave.training.settings import require


@dataclass(slots=True, kw_only=True)
class Scheduler(Policy):
    """Base of schedulers: a warm-up before they begin.

    MXNet knows two rates. The optimizer's ``learning_rate`` overwrites the scheduler's attribute ``base_lr``,
    which Factor and MultiFactor start from; the value that the scheduler's constructor was given stays what a
    linear warm-up rises to and what Poly and Cosine start from.

    Attributes:
        base_lr: What the scheduler's constructor was given; None for the learning rate.
        warmup_steps: Updates before the scheduler's own rule begins.
        warmup_begin_lr: Rate of the first of these.
        warmup_mode: ``linear`` rises from there to the base rate, ``constant`` stays there.
        first_update: Number of the first update.
    """

    base_lr: float | None = None
    warmup_steps: int = 0
    warmup_begin_lr: float = 0.0
    warmup_mode: str = "linear"
    first_update: int = 1

    def __post_init__(self) -> None:
        require(self.warmup_steps >= 0, f"warmup_steps is {self.warmup_steps}, expected at least 0")
        low = self.warmup_begin_lr <= self.own_rate
        require(low, f"warmup_begin_lr is {self.warmup_begin_lr}, expected at most {self.own_rate}")
        known = self.warmup_mode in {"linear", "constant"}
        require(known, f"warmup_mode is {self.warmup_mode!r}, expected linear or constant")

    @property
    def own_rate(self) -> float:
        """The rate of the scheduler itself, which ``learning_rate`` does not overwrite."""
        return self.base_rate if self.base_lr is None else self.base_lr

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        update = iteration + self.first_update
        if update >= self.warmup_steps:
            return self.after_warmup(update)
        if self.warmup_mode == "constant":
            return self.warmup_begin_lr
        return self.warmup_begin_lr + (self.own_rate - self.warmup_begin_lr) * update / self.warmup_steps

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        return self.base_rate


@policy("mxnet.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Scheduler):
    """The learning rate of the optimizer, without a scheduler."""


@policy("mxnet.factor")
@dataclass(slots=True, kw_only=True)
class Factor(Scheduler):
    """base_lr factor^k, k steps of ``step`` updates being over; not below ``stop_factor_lr``."""

    step: int
    factor: float = 1.0
    stop_factor_lr: float = 1e-8

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        require(self.step >= 1, f"step is {self.step}, expected at least 1")
        require(self.factor <= 1.0, f"factor is {self.factor}, expected at most 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        rate = self.base_rate * self.factor ** (max(0, update - 1) // self.step)
        return rate if update <= self.step else max(rate, self.stop_factor_lr)


@policy("mxnet.multifactor")
@dataclass(slots=True, kw_only=True)
class MultiFactor(Scheduler):
    """base_lr factor^k, k of the updates in ``step`` being over."""

    step: list[int]
    factor: float = 1.0

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        rising = all(a < b for a, b in zip([0, *self.step], self.step, strict=False))
        require(rising, f"step is {self.step}, expected numbers that rise, from 1 on")
        require(self.factor <= 1.0, f"factor is {self.factor}, expected at most 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        return self.base_rate * self.factor ** sum(update > step for step in self.step)


@dataclass(slots=True, kw_only=True)
class _Falling(Scheduler):
    max_update: int
    final_lr: float = 0.0

    def __post_init__(self) -> None:
        Scheduler.__post_init__(self)
        require(self.max_update >= 1, f"max_update is {self.max_update}, expected at least 1")

    def after_warmup(self, update: int) -> float:
        """Return the rate of an update by its number."""
        done = (min(update, self.max_update) - self.warmup_steps) / (self.max_update - self.warmup_steps)
        return self.final_lr + (self.own_rate - self.final_lr) * self.left(done)

    @abstractmethod
    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""


@policy("mxnet.poly")
@dataclass(slots=True, kw_only=True)
class Poly(_Falling):
    """From base_lr down to final_lr along (1 - x)^pwr, x from 0 to 1 over the updates after the warm-up."""

    pwr: float = 2.0

    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""
        return math.pow(1.0 - done, self.pwr)


@policy("mxnet.cosine")
@dataclass(slots=True, kw_only=True)
class Cosine(_Falling):
    """From base_lr down to final_lr along half a period of the cosine."""

    def left(self, done: float) -> float:
        """Return the share of the way down that is left when a share of the updates is done."""
        return (1.0 + math.cos(math.pi * done)) / 2.0
