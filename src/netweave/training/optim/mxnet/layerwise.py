"""MXNet's optimizers whose rate is each parameter's own, for large batches (python/mxnet/optimizer at 1.9.1).

The words of the formulas are those of ``rules``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from netweave.training.optim.mxnet.rules import LazyRule, MXNetRule
from netweave.training.optim.rule import Beginning, Block, Multiplied, rule, sum_of_squares
from netweave.training.settings import require

if TYPE_CHECKING:
    from collections.abc import Mapping


@rule("mxnet.lars")
@dataclass(frozen=True, slots=True, kw_only=True)
class LARS(LazyRule):
    """SGD with n times eta |w| / (|g| + wd |w| + eps), except for gammas, betas and biases.

    With ``momentum_correction`` the momentum is multiplied by the rate over the one of the parameter
    before: in MXNet there is one such memory, so that a new rate shows in the first parameter only.
    """

    names: ClassVar[tuple[str, ...]] = ("mom",)
    by_parameter: ClassVar[bool] = True
    num_sums: ClassVar[int] = 2

    momentum: float = 0.0
    eta: float = 0.001
    eps: float = 0.0
    momentum_correction: bool = True

    def measure(self, block: Block) -> torch.Tensor:
        """Return the sums of w^2 and of the rescaled g^2."""
        squares = sum_of_squares(block.gradients) * self.rescale_grad**2
        return torch.stack([sum_of_squares(block.weights), squares])

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the momentum and the factor on the rate of each parameter."""
        last = beginning.memory.get("rate", beginning.base_rate)
        beginning.memory["rate"] = beginning.base_rate
        found = {}
        for parameter in beginning.parameters:
            momentum = self.momentum
            if self.momentum_correction and last:
                momentum *= beginning.base_rate / last
            last = beginning.base_rate  # so that a new rate shows in the first parameter only
            layerwise = not parameter.key.endswith(("gamma", "beta", "bias"))
            found[parameter.key] = (momentum, self._trust(parameter) if layerwise else 1.0)
        return found

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        momentum, trust = block.factors
        gradients, mom = self.decayed(block), block.state["mom"]
        torch._foreach_mul_(mom, momentum)
        torch._foreach_sub_(mom, gradients, alpha=block.rate * trust)
        torch._foreach_add_(block.weights, mom)

    def _trust(self, parameter: Multiplied) -> float:
        weight, gradient = (math.sqrt(total) for total in parameter.sums)
        if weight > 0.0 and gradient > 0.0:
            return self.eta * weight / (gradient + parameter.decay * weight + self.eps)
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
    num_sums: ClassVar[int] = 2

    momentum: float = 0.0
    warmup_strategy: str = "linear"
    warmup_epochs: int = 5
    batch_scale: int = 1
    updates_per_epoch: int = 32
    begin_epoch: int = 0
    num_epochs: int = 60

    def __post_init__(self) -> None:
        require(self.batch_scale >= 1, f"batch_scale is {self.batch_scale}, expected at least 1")

    @property
    def measures(self) -> bool:
        """True if an update can only begin when all gradients are there."""
        return self.warmup_strategy == "lars"

    def measure(self, block: Block) -> torch.Tensor:
        """Return the sums of w^2 and of the squared mean of the gradients so far."""
        totals = torch._foreach_add(block.state["sum"], block.gradients)
        squares = sum_of_squares(totals) / self.batch_scale**2
        return torch.stack([sum_of_squares(block.weights), squares])

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factor on the rate of each parameter."""
        rate = beginning.base_rate
        last = beginning.memory.get("rate", rate)
        beginning.memory["rate"] = rate
        count = self._count(beginning.step)
        found = {}
        for number, parameter in enumerate(beginning.parameters):
            if self.warmup_strategy == "lars":
                factor = _trust_of_squares(*parameter.sums, decay=parameter.decay)
            else:
                factor = self._warmed(count)
            found[parameter.key] = (factor * (last / rate) if not number and rate else factor,)
        return found

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        totals = block.state["sum"]
        torch._foreach_add_(totals, block.gradients)
        if self._count(block.step) % self.batch_scale:
            return
        block.gradients = list(torch._foreach_div(totals, self.batch_scale))
        gradients, mom = self.decayed(block), block.state["mom"]
        torch._foreach_mul_(mom, self.momentum)
        torch._foreach_sub_(mom, gradients, alpha=block.rate * block.factors[0])
        torch._foreach_add_(block.weights, mom)
        torch._foreach_zero_(totals)

    def _count(self, step: int) -> int:
        """Return the number of an update in the whole training."""
        return self.begin_epoch * self.updates_per_epoch + step

    def _warmed(self, count: int) -> float:
        """Return the factor of an update."""
        until, most = self.warmup_epochs * self.updates_per_epoch, float(self.batch_scale)
        if count >= until:
            return most
        rises = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if until <= 1 or self.warmup_strategy not in rises:
            return 1.0
        return 1.0 + (most - 1.0) * math.pow(count / until, rises[self.warmup_strategy])


def _trust_of_squares(weights: float, gradients: float, *, decay: float) -> float:
    """Return what LBSGD calls LARS."""
    return min(max(math.sqrt(weights / (gradients + decay * weights + 1e-18)), 0.01), 100.0)
