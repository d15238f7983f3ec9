"""Update rules of MXNet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from netweave.training.optim.rule import Beginning, Block, Multiplied, Rule, Tensors, rule, sum_of_squares
from netweave.training.optim.updater import descend, heavy_ball
from netweave.training.settings import require

# Common to all: gradients are multiplied by ``rescale_grad`` and, where ``clip_gradient`` is set, clipped
# element by element; whether the decay is added before or after the clipping differs. In the formulas g is
# the rescaled gradient, c() the clipping, n the local rate, wd the local decay, w the weights. The
# optimizers of older versions are rules of their own where the formula differs.


@dataclass(frozen=True, slots=True, kw_only=True)
class MXNetRule(Rule):
    """Base of MXNet's optimizers.

    Attributes:
        wd: Weight decay.
        rescale_grad: Factor of the gradients; for a loss that is not averaged, one over the batch size.
        clip_gradient: Largest size of an element of the gradient; None or 0 for none.
        begin_num_update: Updates that count as done before the first one, as after a checkpoint.
        multi_precision: Whether weights of 16 bits have a copy of 32 bits that is updated. Accepted and not
            looked at: here the weights that are updated always have 32 bits or more.
    """

    wd: float = 0.0
    rescale_grad: float = 1.0
    clip_gradient: float | None = None
    begin_num_update: int = 0
    multi_precision: bool = False

    @property
    def updates_before(self) -> int:
        """Updates that count as done before the first one."""
        return self.begin_num_update

    @property
    def decay(self) -> float:
        """Weight decay, before ``wd_mult``."""
        return self.wd

    def scale(self, beginning: Beginning) -> float:
        """Return ``rescale_grad``: what was accumulated is its affair (``grad_req='add'``)."""
        return self.rescale_grad

    def clipped(self, block: Block) -> Tensors:
        """Return c(g); to be read only."""
        return self._clip(block.scaled())

    def decayed(self, block: Block) -> Tensors:
        """Return c(g) + wd w; to be read only."""
        gradients = self.clipped(block)
        return torch._foreach_add(gradients, block.weights, alpha=block.decay) if block.decay else gradients

    def decayed_then_clipped(self, block: Block) -> Tensors:
        """Return c(g + wd w); to be read only."""
        gradients = block.scaled()
        if block.decay:
            gradients = torch._foreach_add(gradients, block.weights, alpha=block.decay)
        return self._clip(gradients)

    def _clip(self, gradients: Tensors) -> Tensors:
        if not self.clip_gradient:
            return gradients
        gradients = torch._foreach_clamp_min(gradients, -self.clip_gradient)
        torch._foreach_clamp_max_(gradients, self.clip_gradient)
        return gradients


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyRule(MXNetRule):
    """An optimizer with MXNet's switch for row-sparse gradients.

    Attributes:
        lazy_update: Whether only the rows that a row-sparse gradient holds are changed. Accepted and not
            looked at: gradients here are dense, for which MXNet does not look at it either.
    """

    lazy_update: bool = True


@rule("mxnet.ccsgd")
@rule("mxnet.sgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(LazyRule):
    """mom = momentum mom - n (c(g) + wd w); w += mom."""

    names: ClassVar[tuple[str, ...]] = ("mom",)

    momentum: float = 0.0

    @property
    def in_one_pass(self) -> bool:
        """True if PyTorch's kernel does all of it."""
        return not self.clip_gradient and self.rescale_grad != 0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        mom = block.state["mom"]
        if self.in_one_pass and self.momentum:
            heavy_ball(block, block.gradients, mom, momentum=self.momentum, sign=-1.0, scale=block.scale)
        elif self.in_one_pass and block.scale:
            descend(block, block.gradients, scale=block.scale)
        elif self.momentum:
            heavy_ball(block, self.clipped(block), mom, momentum=self.momentum, sign=-1.0)
        else:
            torch._foreach_sub_(block.weights, self.decayed(block), alpha=block.rate)


@rule("mxnet.nag")
@dataclass(frozen=True, slots=True, kw_only=True)
class NAG(MXNetRule):
    """old = momentum mom; w' = w - old + (momentum + 1)(old - n (c(g) + wd w)); mom = old - n (c(g) + wd w').

    The kernel works in place, so that its second decay is that of the new weights.
    """

    names: ClassVar[tuple[str, ...]] = ("mom",)

    momentum: float = 0.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, mom = self.clipped(block), block.state["mom"]
        torch._foreach_mul_(mom, self.momentum)
        step = torch._foreach_sub(mom, gradients, alpha=block.rate)
        torch._foreach_sub_(step, block.weights, alpha=block.rate * block.decay)
        torch._foreach_sub_(block.weights, mom)
        torch._foreach_add_(block.weights, step, alpha=self.momentum + 1.0)
        torch._foreach_sub_(mom, gradients, alpha=block.rate)
        torch._foreach_sub_(mom, block.weights, alpha=block.rate * block.decay)


@rule("mxnet.nag-0.9")
@dataclass(frozen=True, slots=True, kw_only=True)
class OldNAG(MXNetRule):
    """Up to 0.9: mom = momentum mom + g'; w -= n (g' + momentum mom), g' = c(g) + wd w."""

    names: ClassVar[tuple[str, ...]] = ("mom",)

    momentum: float = 0.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, mom = self.decayed(block), block.state["mom"]
        torch._foreach_mul_(mom, self.momentum)
        torch._foreach_add_(mom, gradients)
        torch._foreach_sub_(
            block.weights, torch._foreach_add(gradients, mom, alpha=self.momentum), alpha=block.rate
        )


@rule("mxnet.signum")
@dataclass(frozen=True, slots=True, kw_only=True)
class Signum(MXNetRule):
    """mom = momentum mom - (1 - momentum)(c(g) + wd w); w = (1 - n wd_lh) w + n sign(mom).

    Without momentum: w = (1 - n wd) w - n sign(g).
    """

    names: ClassVar[tuple[str, ...]] = ("mom",)

    momentum: float = 0.9
    wd_lh: float = 0.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        mom = block.state["mom"]
        if self.momentum:
            gradients = self.decayed(block)
            torch._foreach_mul_(mom, self.momentum)
            torch._foreach_sub_(mom, gradients, alpha=1.0 - self.momentum)
            shrink, towards, rate = self.wd_lh, torch._foreach_sign(mom), block.rate
        else:
            shrink, towards, rate = block.decay, torch._foreach_sign(block.scaled()), -block.rate
        torch._foreach_mul_(block.weights, 1.0 - block.rate * shrink)
        torch._foreach_add_(block.weights, towards, alpha=rate)


@rule("mxnet.dcasgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class DCASGD(MXNetRule):
    """mom = momentum mom - n (c(g) + wd w + lamda c(g)^2 (w - before)); before = w; w += mom."""

    names: ClassVar[tuple[str, ...]] = ("mom", "before")

    momentum: float = 0.0
    lamda: float = 0.04

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, mom, before = self.clipped(block), block.state["mom"], block.state["before"]
        drift = torch._foreach_sub(block.weights, before)
        torch._foreach_mul_(drift, gradients)
        total = torch._foreach_addcmul(gradients, gradients, drift, value=self.lamda)
        torch._foreach_add_(total, block.weights, alpha=block.decay)
        torch._foreach_mul_(mom, self.momentum)
        torch._foreach_sub_(mom, total, alpha=block.rate)
        torch._foreach_copy_(before, block.weights)
        torch._foreach_add_(block.weights, mom)

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return the weights of before the first step, or zeros."""
        return weight.clone() if name == "before" else torch.zeros_like(weight)


@rule("mxnet.sgld")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGLD(MXNetRule):
    """w += -n / 2 (c(g) + wd w) + a normal number of standard deviation sqrt(n)."""

    by_parameter: ClassVar[bool] = True  # what is drawn belongs to a parameter's elements
    draws_noise: ClassVar[bool] = True

    def update(self, block: Block) -> None:
        """Change weights by one step."""
        torch._foreach_sub_(block.weights, self.decayed(block), alpha=block.rate / 2.0)
        assert block.noise is not None
        torch._foreach_add_(block.weights, block.noise(), alpha=math.sqrt(block.rate))


# The words of the formulas are those of ``rules``.


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
        numbers = {}
        for parameter in beginning.parameters:
            momentum = self.momentum
            if self.momentum_correction and last:
                momentum *= beginning.base_rate / last
            last = beginning.base_rate  # so that a new rate shows in the first parameter only
            layerwise = not parameter.key.endswith(("gamma", "beta", "bias"))
            numbers[parameter.key] = (momentum, self._trust(parameter) if layerwise else 1.0)
        return numbers

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
        numbers = {}
        for number, parameter in enumerate(beginning.parameters):
            if self.warmup_strategy == "lars":
                factor = _trust_of_squares(*parameter.sums, decay=parameter.decay)
            else:
                factor = self._warmed(count)
            numbers[parameter.key] = (factor * (last / rate) if not number and rate else factor,)
        return numbers

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
