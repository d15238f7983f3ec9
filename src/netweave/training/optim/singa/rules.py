"""SINGA's seven updaters (src/utils/updater.cc at 0.3.0).

Common to all: gradients are clipped element by element where the updater does that, then averaged over the
layers that share the parameter, then the decay times w is added. In the formulas g is that gradient, n the
local rate, d ``delta``, w the weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from netweave.training.optim.arithmetic import average, average_square, complement, heavy_ball
from netweave.training.optim.rule import Block, Rule, Tensors, rule
from netweave.training.settings import require

ADAGRAD_DELTA = 1e-8
"""SINGA's AdaGrad reads ``delta`` from a message that its constructor never fills: always the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SingaRule(Rule):
    """Base of SINGA's updaters.

    Attributes:
        weight_decay: Factor of the decay, >= 0: SINGA ignores one below 0.
    """

    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require(self.weight_decay >= 0, f"weight_decay is {self.weight_decay:g}, expected at least 0")

    @property
    def decay(self) -> float:
        """Weight decay, before ``wd_scale``."""
        return self.weight_decay

    def averaged(self, block: Block) -> Tensors:
        """Return the gradients averaged over the layers that share them; to be read only."""
        return block.scaled()

    def decayed(self, block: Block) -> Tensors:
        """Return the averaged gradients with the decay added; to be read only."""
        gradients = self.averaged(block)
        if not block.decay:
            return gradients
        added: Tensors = torch._foreach_add(gradients, block.weights, alpha=block.decay)
        return added


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clipping(SingaRule):
    """The updaters that clip.

    Attributes:
        clip_low: Least value of an element of a gradient.
        clip_high: Greatest value; gradients are clipped only if it is above ``clip_low``.
    """

    clip_low: float = 0.0
    clip_high: float = 0.0

    def averaged(self, block: Block) -> Tensors:
        """Return the gradients clipped, then averaged; SINGA clips the sum over the layers."""
        if self.clip_high <= self.clip_low:
            return block.scaled()
        clipped: Tensors = torch._foreach_clamp_max(block.gradients, self.clip_high)
        torch._foreach_clamp_min_(clipped, self.clip_low)
        if block.scale != 1.0:
            torch._foreach_mul_(clipped, block.scale)
        return clipped


@rule("singa.sgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(_Clipping):
    """h = momentum h - n g; w += h. Without momentum, w -= n g."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    momentum: float = 0.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        if self.momentum <= 0:
            torch._foreach_sub_(block.weights, self.decayed(block), alpha=block.rate)
        else:
            heavy_ball(block, self.averaged(block), block.state["h"], momentum=self.momentum, sign=-1.0)


@rule("singa.nesterov")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nesterov(_Clipping):
    """h' = momentum h + n g; w -= (1 + momentum) h' - momentum h."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    momentum: float = 0.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        h = block.state["h"]
        step = torch._foreach_mul(h, -self.momentum)
        torch._foreach_mul_(h, self.momentum)
        torch._foreach_add_(h, self.decayed(block), alpha=block.rate)
        torch._foreach_add_(step, h, alpha=1.0 + self.momentum)
        torch._foreach_sub_(block.weights, step)


@rule("singa.adagrad")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaGrad(_Clipping):
    """h += g^2; w -= n g / sqrt(h + 1e-8)."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h = self.decayed(block), block.state["h"]
        torch._foreach_addcmul_(h, g, g)
        _divide_by_root(block, g, h, delta=ADAGRAD_DELTA)


@rule("singa.rmsprop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RMSProp(_Clipping):
    """h = rho h + (1 - rho) g^2; w -= n g / sqrt(h + d)."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    rho: float
    delta: float = 1e-8

    def __post_init__(self) -> None:
        SingaRule.__post_init__(self)
        _require_share("rho", self.rho)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h = self.decayed(block), block.state["h"]
        average_square(h, g, keep=self.rho, add=complement(self.rho, g))
        _divide_by_root(block, g, h, delta=self.delta)


@rule("singa.adadelta")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDelta(SingaRule):
    """h = rho h + (1 - rho) g^2; t = g sqrt(u + d) / sqrt(h + d); u = rho u + (1 - rho) t^2; w -= n t."""

    names: ClassVar[tuple[str, ...]] = ("h", "u")

    rho: float = 0.9
    delta: float = 1e-8

    def __post_init__(self) -> None:
        SingaRule.__post_init__(self)
        _require_share("rho", self.rho)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h, u = self.decayed(block), block.state["h"], block.state["u"]
        add = complement(self.rho, g)
        average_square(h, g, keep=self.rho, add=add)
        step = _root(u, self.delta)
        torch._foreach_mul_(step, g)
        torch._foreach_div_(step, _root(h, self.delta))
        average_square(u, step, keep=self.rho, add=add)
        torch._foreach_sub_(block.weights, step, alpha=block.rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _TwoAverages(SingaRule):
    beta1: float = 0.9
    beta2: float = 0.999
    delta: float = 1e-8

    def __post_init__(self) -> None:
        SingaRule.__post_init__(self)
        _require_share("beta1", self.beta1)
        _require_share("beta2", self.beta2)


@rule("singa.adam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(_TwoAverages):
    """m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w -= n m / sqrt(v + d).

    SINGA does not correct the two averages for the zeros that they start from.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "v")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, m, v = self.decayed(block), block.state["m"], block.state["v"]
        average(m, g, keep=self.beta1, add=complement(self.beta1, g))
        average_square(v, g, keep=self.beta2, add=complement(self.beta2, g))
        _divide_by_root(block, m, v, delta=self.delta)


@rule("singa.adammax")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdamMax(_TwoAverages):
    """m = beta1 m + (1 - beta1) g; u = max(beta2 u, abs(g)) + d; w -= n m / u.

    SINGA stores u with ``delta`` in it, so that it is added again in each step.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "u")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, m, u = self.decayed(block), block.state["m"], block.state["u"]
        average(m, g, keep=self.beta1, add=complement(self.beta1, g))
        torch._foreach_mul_(u, self.beta2)
        torch._foreach_maximum_(u, torch._foreach_abs(g))
        torch._foreach_add_(u, self.delta)
        torch._foreach_addcdiv_(block.weights, m, u, value=-block.rate)


def _root(tensors: Tensors, delta: float) -> Tensors:
    """Return sqrt(x + delta): SINGA adds delta inside the root."""
    root: Tensors = torch._foreach_add(tensors, delta)
    torch._foreach_sqrt_(root)
    return root


def _divide_by_root(block: Block, above: Tensors, below: Tensors, *, delta: float) -> None:
    torch._foreach_addcdiv_(block.weights, above, _root(below, delta), value=-block.rate)


def _require_share(name: str, value: float) -> None:
    require(0.0 <= value < 1.0, f"{name} is {value:g}, expected 0 or more and less than 1")
