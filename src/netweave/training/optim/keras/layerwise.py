"""Keras 3's optimizers that look at a whole parameter at once (keras/src/optimizers at 3.15).

The words of the formulas are those of ``rules``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from netweave.training.optim.keras.rules import Averages, KerasRule
from netweave.training.optim.rule import Beginning, Block, rule

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch


@rule("keras.lamb")
@dataclass(frozen=True, slots=True, kw_only=True)
class Lamb(Averages):
    """u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + e); w -= n |w| / |u| u, where both norms are above 0."""

    whole_parameters: ClassVar[bool] = True

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        mean, square = self.averaged(block, self.prepared(block))
        for weight, m, v in zip(block.weights, mean, square, strict=True):
            root = (v / (1.0 - self.beta_2**block.step)).sqrt() + self.epsilon
            step = m / (1.0 - self.beta_1**block.step) / root
            of_weight, of_step = float(weight.norm()), float(step.norm())
            ratio = of_weight / of_step if of_weight > 0 and of_step > 0 else 1.0
            weight.sub_(step, alpha=ratio * block.rate)


@rule("keras.adafactor")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adafactor(KerasRule):
    """Squares of gradients as a product of the means of their rows and columns.

    With q = min(n, 1 / sqrt(t)), a = max(e2, rms(w)) q, b = 1 - t^d and s = g^2 + e1: r averages the means of
    s over the last axis and c those over the axis before, both at the rate b; v = r / mean(r) c, or the
    average of s where w has one axis. u = g / sqrt(v); w -= a u / max(1, rms(u) / threshold).

    ``r`` and ``c`` are kept in the shape of the parameter, each value once for every element that it stands
    for, since the layout of the parameter is not known where they are made.

    Attributes:
        axes: The last axis and the one before, as Keras counts them, in the layout of the tensor that is
            changed; by the key of the parameter. A parameter that is not named has one axis.
    """

    names: ClassVar[tuple[str, ...]] = ("r", "c", "v")
    whole_parameters: ClassVar[bool] = True

    beta_2_decay: float = -0.8
    epsilon_1: float = 1e-30
    epsilon_2: float = 1e-3
    clip_threshold: float = 1.0
    relative_step: bool = True
    axes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factor on the gradient of each parameter, and its two axes."""
        clipped = KerasRule.begin(self, beginning)
        keys = [one.key for one in beginning.parameters]
        return {key: (*clipped.get(key, (1.0,)), *self.axes.get(key, ())) for key in keys}

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        # Keras writes min(n, 1 / sqrt(t)) whatever ``relative_step`` says; the setting changes nothing
        rate = min(block.rate, 1.0 / math.sqrt(block.step))
        keep = 1.0 - math.pow(block.step, self.beta_2_decay)
        _, *places = block.factors
        state = (block.state[name] for name in self.names)
        for weight, gradient, r, c, v in zip(block.weights, self.prepared(block), *state, strict=True):
            size = max(self.epsilon_2, _rms(weight)) * rate
            square = gradient.square() + self.epsilon_1
            if places:
                last, before = (int(place) for place in places)
                r.mul_(keep).add_(square.mean(last, keepdim=True), alpha=1.0 - keep)
                c.mul_(keep).add_(square.mean(before, keepdim=True), alpha=1.0 - keep)
                v.copy_(r / r.mean(before, keepdim=True) * c)
            else:
                v.mul_(keep).add_(square, alpha=1.0 - keep)
            step = gradient / v.sqrt()
            weight.sub_(step, alpha=size / max(1.0, _rms(step) / self.clip_threshold))


def _rms(tensor: torch.Tensor) -> float:
    return float(tensor.square().mean().sqrt())
