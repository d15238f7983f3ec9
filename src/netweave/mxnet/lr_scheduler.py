"""``mx.lr_scheduler``: the schedulers as objects that are called with the number of the update.

The rates are those of ``training.optim.mxnet.policies``.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar

from netweave import job
from netweave.training.optim.rule import Policy, make_policy


class LRScheduler:
    """A learning rate that changes: a subclass returns it from ``__call__(num_update)``.

    Args:
        base_lr: The rate that it starts from; an optimizer puts its own learning rate here.
        warmup_steps: Updates before the scheduler's own rule begins.
        warmup_begin_lr: Rate of the first of these.
        warmup_mode: ``linear`` or ``constant``.
    """

    kind: ClassVar[str] = "fixed"

    def __init__(
        self,
        base_lr: float = 0.01,
        warmup_steps: int = 0,
        warmup_begin_lr: float = 0.0,
        warmup_mode: str = "linear",
        **settings: Any,
    ) -> None:
        self.base_lr = base_lr
        self.warmup_steps, self.warmup_begin_lr, self.warmup_mode = warmup_steps, warmup_begin_lr, warmup_mode
        self.warmup_final_lr = base_lr
        self._settings = settings
        self._made: tuple[float, Policy] | None = None
        self._last: float | None = None
        if type(self).__call__ is LRScheduler.__call__:
            self._policy()  # settings that are out of range are found now

    def _policy(self) -> Policy:
        if self._made is None or self._made[0] != self.base_lr:
            settings = {
                "base_lr": self.warmup_final_lr,
                "warmup_steps": self.warmup_steps,
                "warmup_begin_lr": self.warmup_begin_lr,
                "warmup_mode": self.warmup_mode,
                **self._settings,
            }
            self._made = (self.base_lr, make_policy(job.Policy(f"mxnet.{self.kind}", self.base_lr, settings)))
        return self._made[1]

    def __call__(self, num_update: int) -> float:
        """Return the rate of an update by its number, from 1."""
        rate = self._policy().rate(num_update - 1)
        if self._last is not None and rate != self._last and self.kind in {"factor", "multifactor"}:
            logging.info("Update[%d]: Change learning rate to %0.5e", num_update, rate)
        self._last = rate
        return rate


class FactorScheduler(LRScheduler):
    """A factor after every ``step`` updates."""

    kind = "factor"

    def __init__(
        self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01, **warmup: Any
    ) -> None:
        super().__init__(base_lr, **warmup, step=step, factor=factor, stop_factor_lr=stop_factor_lr)
        self.step, self.factor, self.stop_factor_lr = step, factor, stop_factor_lr


class MultiFactorScheduler(LRScheduler):
    """A factor after each of the updates in ``step``."""

    kind = "multifactor"

    def __init__(self, step: list[int], factor: float = 1, base_lr: float = 0.01, **warmup: Any) -> None:
        super().__init__(base_lr, **warmup, step=list(step), factor=factor)
        self.step, self.factor = step, factor


class PolyScheduler(LRScheduler):
    """Down to ``final_lr`` along a power."""

    kind = "poly"

    def __init__(
        self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0, **warmup: Any
    ) -> None:
        super().__init__(base_lr, **warmup, max_update=max_update, pwr=pwr, final_lr=final_lr)
        self.max_update, self.power, self.final_lr = max_update, pwr, final_lr


class CosineScheduler(LRScheduler):
    """Down to ``final_lr`` along half a period of the cosine."""

    kind = "cosine"

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, **warmup: Any) -> None:
        super().__init__(base_lr, **warmup, max_update=max_update, final_lr=final_lr)
        self.max_update, self.final_lr = max_update, final_lr
