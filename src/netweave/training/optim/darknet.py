"""Update rules, policies and initializers of Darknet."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from netweave.training.optim.first_values import Shape, filler
from netweave.training.optim.rule import Block, Policy, Rule, policy, rule
from netweave.training.optim.updater import adam
from netweave.training.settings import require


@filler("darknet.constant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 0.0) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("darknet.normal")
def normal(shape: Shape, generator: np.random.Generator, fan_in: int) -> np.ndarray:
    """Return normal numbers of variance 2 / fan_in: those of a convolution."""
    return generator.normal(0.0, np.sqrt(2.0 / fan_in), shape)


@filler("darknet.uniform")
def uniform(shape: Shape, generator: np.random.Generator, fan_in: int) -> np.ndarray:
    """Return uniform numbers up to sqrt(2 / fan_in) either way: those of a dense layer."""
    bound = np.sqrt(2.0 / fan_in)
    return generator.uniform(-bound, bound, shape)


# The number that they look at is that of the update that is being made, from 1: Darknet counts the images
# of a batch before it changes the weights. SGDR is of AlexeyAB's branch.


@dataclass(slots=True, kw_only=True)
class DarknetPolicy(Policy):
    """A policy that begins after a warm-up: learning_rate (n / burn_in)^power for update n < burn_in.

    Attributes:
        burn_in: Updates before the policy's own rule holds.
        power: Of the warm-up, and of ``poly``.
    """

    burn_in: int = 0
    power: float = 4.0

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        number = iteration + 1
        if number < self.burn_in:
            return self.base_rate * math.pow(number / self.burn_in, self.power)
        return self.of_update(number)

    @abstractmethod
    def of_update(self, number: int) -> float:
        """Return the rate of an update, counted from 1, after the warm-up."""


@policy("darknet.constant")
@dataclass(slots=True, kw_only=True)
class Constant(DarknetPolicy):
    """learning_rate."""

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        return self.base_rate


@policy("darknet.step")
@dataclass(slots=True, kw_only=True)
class Step(DarknetPolicy):
    """learning_rate scale^floor(n / step)."""

    step: int = 1
    scale: float = 1.0

    def __post_init__(self) -> None:
        require(self.step > 0, f"step is {self.step}, expected more than 0")

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        return self.base_rate * self.scale ** (number // self.step)


@policy("darknet.steps")
@dataclass(slots=True, kw_only=True)
class Steps(DarknetPolicy):
    """learning_rate times every scale whose step has been reached, up to the first that has not."""

    steps: list[int]
    scales: list[float]

    def __post_init__(self) -> None:
        equal = len(self.steps) == len(self.scales)
        require(equal, f"{len(self.steps)} steps for {len(self.scales)} scales, expected one for each")

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        rate = self.base_rate
        for step, scale in zip(self.steps, self.scales, strict=True):
            if step > number:
                break
            rate *= scale
        return rate


@policy("darknet.exp")
@dataclass(slots=True, kw_only=True)
class Exp(DarknetPolicy):
    """learning_rate gamma^n."""

    gamma: float = 1.0

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        return self.base_rate * math.pow(self.gamma, number)


@policy("darknet.poly")
@dataclass(slots=True, kw_only=True)
class Poly(DarknetPolicy):
    """learning_rate (1 - n / max_batches)^power: zero in the last update."""

    max_batches: int

    def __post_init__(self) -> None:
        require(self.max_batches > 0, f"max_batches is {self.max_batches}, expected more than 0")

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        return self.base_rate * math.pow(max(0.0, 1.0 - number / self.max_batches), self.power)


@policy("darknet.sigmoid")
@dataclass(slots=True, kw_only=True)
class Sigmoid(DarknetPolicy):
    """learning_rate / (1 + exp(gamma (n - step)))."""

    gamma: float = 1.0
    step: int = 1

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        power = self.gamma * (number - self.step)
        return self.base_rate / (1.0 + math.exp(power)) if power < 700.0 else 0.0


@policy("darknet.sgdr")
@dataclass(slots=True, kw_only=True)
class SGDR(DarknetPolicy):
    """Half a cosine from learning_rate to learning_rate_min, again and again, each longer than the last.

    Attributes:
        learning_rate_min: Rate at the end of a cycle.
        sgdr_cycle: Updates of the first cycle.
        sgdr_mult: Factor from one cycle to the next.
    """

    sgdr_cycle: int
    learning_rate_min: float = 0.00001
    sgdr_mult: int = 2

    def __post_init__(self) -> None:
        require(self.sgdr_cycle > 0, f"sgdr_cycle is {self.sgdr_cycle}, expected more than 0")
        require(self.sgdr_mult > 0, f"sgdr_mult is {self.sgdr_mult}, expected more than 0")

    def of_update(self, number: int) -> float:
        """Return the rate of an update."""
        start, cycle = 0, self.sgdr_cycle
        while start + cycle < number:
            start += cycle
            cycle *= self.sgdr_mult
        share = (1.0 + math.cos(math.pi * (number - start) / cycle)) / 2.0
        return self.learning_rate_min + (self.base_rate - self.learning_rate_min) * share


# Darknet sums gradients over the images of an update and divides the rate by their number; the decay it
# adds is times that number. Here gradients are means, so that both factors are gone. Biases and the scales
# of batch normalisation do not decay.


@dataclass(frozen=True, slots=True, kw_only=True)
class DarknetRule(Rule):
    """Base of Darknet's update rules.

    Attributes:
        weight_decay: Factor of the decay (``decay``).
    """

    weight_decay: float = 0.0

    @property
    def decay(self) -> float:
        """Weight decay, before multipliers."""
        return self.weight_decay


@rule("darknet.sgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(DarknetRule):
    """u = momentum u + g + decay w; w -= n u. The rate is outside u: a new rate rescales the past, too."""

    names: ClassVar[tuple[str, ...]] = ("u",)

    momentum: float = 0.9

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        torch._fused_sgd_(
            block.weights,
            block.scaled(),
            block.state["u"],
            weight_decay=block.decay,
            momentum=self.momentum,
            lr=block.rate,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )


@rule("darknet.adam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(DarknetRule):
    """m, v = averages of g + decay w and its square; w -= n m' / (sqrt(v') + eps), both corrected.

    Darknet's gradients are sums, so that its ``eps`` weighs less by the number of images. Its rate is not
    divided by that number: a step of Adam has no use for it.

    Attributes:
        B1: Share of the first average that is kept.
        B2: Share of the second.
        eps: Added to the root of the second.
        images: Images of an update.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "v")

    B1: float = 0.9
    B2: float = 0.999
    eps: float = 1e-7
    images: int = 1

    def __post_init__(self) -> None:
        for name in ("B1", "B2"):
            value = getattr(self, name)
            require(0.0 <= value < 1.0, f"{name} is {value:g}, expected 0 <= {name} < 1")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        corrected = (1.0 - self.B2**block.step) ** 0.5  # of the root; the helper adds before it corrects
        adam(
            block,
            block.scaled(),
            block.state["m"],
            block.state["v"],
            betas=(self.B1, self.B2),
            delta=self.eps / self.images * corrected,
            decay=block.decay,
        )
