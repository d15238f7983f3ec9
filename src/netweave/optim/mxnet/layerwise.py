"""MXNet's optimizers whose rate is each parameter's own, for large batches (python/mxnet/optimizer at 1.9.1).

The words of the formulas are those of ``rules``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from netweave.job.make import require
from netweave.optim.mxnet.rules import MXNetRule
from netweave.optim.rule import Block, rule


@rule("mxnet.lars")
@dataclass(frozen=True, slots=True, kw_only=True)
class LARS(MXNetRule):
    """SGD with n times eta |w| / (|g| + wd |w| + eps), except for gammas, betas and biases.

    With ``momentum_correction`` the momentum is multiplied by the rate over the one of the parameter
    before: in MXNet there is one such memory, so that a new rate shows in the first parameter only.
    """

    names: ClassVar[tuple[str, ...]] = ("mom",)
    by_parameter: ClassVar[bool] = True

    momentum: float = 0.0
    eta: float = 0.001
    eps: float = 0.0
    momentum_correction: bool = True

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        last = block.memory.get("rate", block.base_rate)
        block.memory["rate"] = block.base_rate
        momentum = self.momentum
        if self.momentum_correction and last:
            momentum *= block.base_rate / last
        if not block.key.endswith(("gamma", "beta", "bias")):
            block.rate *= self._trust(block)
        gradients, mom = self.decayed(block), block.state["mom"]
        torch._foreach_mul_(mom, momentum)
        torch._foreach_sub_(mom, gradients, alpha=block.rate)
        torch._foreach_add_(block.weights, mom)

    def _trust(self, block: Block) -> float:
        weight = float(torch.linalg.vector_norm(block.weights[0]))
        gradient = float(torch.linalg.vector_norm(block.gradients[0])) * block.scale
        if weight > 0.0 and gradient > 0.0:
            return self.eta * weight / (gradient + block.decay * weight + self.eps)
        return 1.0


@rule("mxnet.lbsgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class LBSGD(MXNetRule):
    """SGD on the mean of ``batch_scale`` gradients, every so many updates, at n times a factor.

    The factor rises from 1 to ``batch_scale`` while the run warms up, or is (|w|^2 / (|g|^2 + wd |w|^2))^1/2
    with the strategy ``lars``. MXNet reads the rate before it counts the update, so that the first
    parameter has the rate of the update before.
    """

    names: ClassVar[tuple[str, ...]] = ("mom", "sum")
    by_parameter: ClassVar[bool] = True

    momentum: float = 0.0
    warmup_strategy: str = "linear"
    warmup_epochs: int = 5
    batch_scale: int = 1
    updates_per_epoch: int = 32
    begin_epoch: int = 0
    num_epochs: int = 60

    def __post_init__(self) -> None:
        require(self.batch_scale >= 1, f"batch_scale is {self.batch_scale}, expected at least 1")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        rate = self._rate(block)
        (weight,), (gradient,), (total,) = block.weights, block.gradients, block.state["sum"]
        total.add_(gradient)
        count = self.begin_epoch * self.updates_per_epoch + block.step
        if count % self.batch_scale:
            return
        block.gradients = [total / self.batch_scale]
        if self.warmup_strategy == "lars":
            rate *= _trust_of_squares(weight, block.gradients[0], block.decay)
        else:
            rate *= self._warmed(count)
        gradients, mom = self.decayed(block), block.state["mom"]
        torch._foreach_mul_(mom, self.momentum)
        torch._foreach_sub_(mom, gradients, alpha=rate)
        torch._foreach_add_(block.weights, mom)
        total.zero_()

    def _rate(self, block: Block) -> float:
        """Return the rate with its multiplier, as MXNet reads it."""
        first = block.memory.get("step", 0.0) < block.step
        last = block.memory.get("rate", block.base_rate)
        block.memory |= {"step": float(block.step), "rate": block.base_rate}
        return block.rate * (last / block.base_rate) if first and block.base_rate else block.rate

    def _warmed(self, count: int) -> float:
        """Return the factor of an update."""
        until, most = self.warmup_epochs * self.updates_per_epoch, float(self.batch_scale)
        if count >= until:
            return most
        rises = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if until <= 1 or self.warmup_strategy not in rises:
            return 1.0
        return 1.0 + (most - 1.0) * math.pow(count / until, rises[self.warmup_strategy])


def _trust_of_squares(weight: torch.Tensor, gradient: torch.Tensor, decay: float) -> float:
    """Return what LBSGD calls LARS; MXNet adds the squares in the type of the weights."""
    weights, gradients = float(weight.square().sum()), float(gradient.square().sum())
    return min(max(math.sqrt(weights / (gradients + decay * weights + 1e-18)), 0.01), 100.0)
