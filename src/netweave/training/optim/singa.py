"""Update rules, policies and initializers of SINGA."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from netweave.training.optim.first_values import Shape, filler
from netweave.training.optim.rule import Block, Policy, Rule, Tensors, policy, rule
from netweave.training.optim.updater import average, average_square, complement, heavy_ball
from netweave.training.settings import require

# A message has the fields of all types; what one of them does not use is ignored, as in SINGA. ``value`` is
# a factor where numbers are drawn, and 1 if the file does not set it, also for a constant.


@filler("singa.kConstant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 1.0, **ignored: Any) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("singa.kUniform")
def uniform(
    shape: Shape,
    generator: np.random.Generator,
    value: float = 1.0,
    low: float = -1.0,
    high: float = 1.0,
    **ignored: Any,
) -> np.ndarray:
    """Return numbers between two bounds, times ``value``."""
    return generator.uniform(low, high, shape) * value


@filler("singa.kGaussian")
def gaussian(
    shape: Shape,
    generator: np.random.Generator,
    value: float = 1.0,
    mean: float = 0.0,
    std: float = 1.0,
    **ignored: Any,
) -> np.ndarray:
    """Return normal numbers, times ``value``."""
    return generator.normal(mean, std, shape) * value


@filler("singa.kGaussianSqrtFanIn")
def gaussian_by_inputs(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return normal numbers, times ``value``, over the root of the inputs of a unit."""
    _, columns = _matrix(shape)
    return gaussian(shape, generator, **ignored) / math.sqrt(columns)


@filler("singa.kUniformSqrtFanIn")
def uniform_by_inputs(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return uniform numbers, times ``value``, over the root of a third of the inputs of a unit."""
    _, columns = _matrix(shape)
    return uniform(shape, generator, **ignored) / math.sqrt(columns / 3.0)


@filler("singa.kUniformSqrtFanInOut")
def uniform_by_both(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return uniform numbers, times ``value``, over the root of inputs and outputs together."""
    rows, columns = _matrix(shape)
    return uniform(shape, generator, **ignored) / math.sqrt(rows + columns)


def _matrix(shape: Shape) -> tuple[int, int]:
    """Return rows and columns.

    Raises:
        ValueError: The parameter has not two axes, as SINGA checks.
    """
    if len(shape) != 2:
        raise ValueError(f"the shape is {shape}, expected 2 axes")
    return shape[0], shape[1]


@policy("singa.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Policy):
    """base_lr."""

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate


@policy("singa.step")
@dataclass(slots=True, kw_only=True)
class Step(Policy):
    """base_lr gamma^floor(step / change_freq)."""

    gamma: float
    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma ** (iteration // self.change_freq)


@policy("singa.linear")
@dataclass(slots=True, kw_only=True)
class Linear(Policy):
    """(1 - r) base_lr + r final_lr with r = step / change_freq; SINGA goes on past final_lr."""

    final_lr: float
    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        part = iteration / self.change_freq
        return (1.0 - part) * self.base_rate + part * self.final_lr


@policy("singa.exponential")
@dataclass(slots=True, kw_only=True)
class Exponential(Policy):
    """base_lr 2^(-step / change_freq)."""

    change_freq: int

    def __post_init__(self) -> None:
        _require_interval(self.change_freq)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power: float = 2.0 ** (-iteration / self.change_freq)
        return self.base_rate * power


@policy("singa.inverse")
@dataclass(slots=True, kw_only=True)
class Inverse(Policy):
    """base_lr (1 + gamma step)^(-pow)."""

    gamma: float
    pow: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma:g}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power: float = (1.0 + self.gamma * iteration) ** -self.pow
        return self.base_rate * power


@policy("singa.inverse_t")
@dataclass(slots=True, kw_only=True)
class InverseT(Policy):
    """base_lr / (1 + step / final_lr)."""

    final_lr: float

    def __post_init__(self) -> None:
        require(self.final_lr > 0, f"final_lr is {self.final_lr:g}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate / (1.0 + iteration / self.final_lr)


@policy("singa.fixed_step")
@dataclass(slots=True, kw_only=True)
class FixedStep(Policy):
    """step_lr[i], where i grows by at most one in an iteration; base_lr is not used.

    Attributes:
        step: The iteration from which on rate i holds; SINGA begins with rate 0 whatever the first one is.
        step_lr: The rates.
        current_step: i.
    """

    step: list[int]
    step_lr: list[float]
    current_step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        equal = len(self.step) == len(self.step_lr) > 0
        require(equal, f"{len(self.step)} step for {len(self.step_lr)} step_lr, expected one for each")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        following = self.current_step + 1
        if following < len(self.step) and iteration >= self.step[following]:
            self.current_step = following
        return self.step_lr[self.current_step]


def _require_interval(change_freq: int) -> None:
    require(change_freq > 0, f"change_freq is {change_freq}, expected more than 0")


# Common to all: gradients are clipped element by element where the updater does that, then averaged over
# the layers that share the parameter, then the decay times w is added. In the formulas g is that gradient,
# n the local rate, d ``delta``, w the weights.

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
