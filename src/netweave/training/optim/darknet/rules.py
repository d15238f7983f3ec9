"""Darknet's two updates (``update_convolutional_layer``, ``adam_update_gpu``).

Darknet sums gradients over the images of an update and divides the rate by their number; the decay it adds is
times that number. Here gradients are means, so that both factors are gone. Biases and the scales of batch
normalisation do not decay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from netweave.training.optim.arithmetic import adam
from netweave.training.optim.rule import Block, Rule, rule
from netweave.training.settings import require


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
