"""Caffe's six solvers (src/caffe/solvers at 1.0).

Common to all: gradients are clipped together by their L2 norm, divided by ``iter_size``, then regularised;
the local rate is the rate times ``lr_mult``, the local decay ``weight_decay`` times ``decay_mult``. In the
formulas g is the regularised gradient, n the local rate, d delta, w the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from netweave.training.optim.arithmetic import adam, average_square, complement, divide_by_root, heavy_ball
from netweave.training.optim.rule import Beginning, Block, Rule, Tensors, rule, sum_of_squares
from netweave.training.settings import require


@dataclass(frozen=True, slots=True, kw_only=True)
class CaffeRule(Rule):
    """Base of Caffe's solvers.

    Attributes:
        momentum: Each solver's own use of it; Caffe's default is 0 for all of them.
        regularization_type: ``L2`` adds the decay times w to the gradients, ``L1`` times the sign of w.
        clip_gradients: Largest L2 norm of all gradients together; negative for none.
        weight_decay: Factor of the decay.
    """

    num_sums: ClassVar[int] = 1

    weight_decay: float = 0.0
    momentum: float = 0.0
    regularization_type: str = "L2"
    clip_gradients: float = -1.0

    def __post_init__(self) -> None:
        known = self.regularization_type in {"L1", "L2"}
        require(known, f"regularization_type is {self.regularization_type!r}, expected L1 or L2")

    @property
    def decay(self) -> float:
        """Weight decay, before ``decay_mult``."""
        return self.weight_decay

    @property
    def measures(self) -> bool:
        """True if an update can only begin when all gradients are there: to clip them together."""
        return self.clip_gradients >= 0.0

    def measure(self, block: Block) -> torch.Tensor:
        """Return the sum of the squared gradients, before they are divided by the number of batches."""
        return sum_of_squares(block.gradients).reshape(1)

    def scale(self, beginning: Beginning) -> float:
        """Return what clips the gradients, and then divides them by the number of batches."""
        scale = 1.0 / beginning.accumulated
        if self.clip_gradients >= 0.0:
            norm = math.sqrt(sum(parameter.sums[0] for parameter in beginning.parameters))
            if norm > self.clip_gradients:
                scale *= self.clip_gradients / norm
        return scale

    def regularised(self, block: Block) -> Tensors:
        """Return the gradients scaled and with the decay added; to be read only."""
        gradients = block.scaled()
        if not block.decay:
            return gradients
        pull = block.weights if self.regularization_type == "L2" else torch._foreach_sign(block.weights)
        added: Tensors = torch._foreach_add(gradients, pull, alpha=block.decay)
        return added


@rule("caffe.sgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(CaffeRule):
    """h = momentum h + n g; w -= h. The rate is inside h: a new rate does not rescale the past."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    @property
    def in_one_pass(self) -> bool:
        """True if PyTorch's kernel does all of it."""
        return bool(self.momentum and self.regularization_type == "L2")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        h = block.state["h"]
        if self.in_one_pass:
            heavy_ball(block, block.gradients, h, momentum=self.momentum, scale=block.scale)
            return
        torch._foreach_mul_(h, self.momentum)
        torch._foreach_add_(h, self.regularised(block), alpha=block.rate)
        torch._foreach_sub_(block.weights, h)


@rule("caffe.nesterov")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nesterov(CaffeRule):
    """h' = momentum h + n g; u = (1 + momentum) h' - momentum h; w -= u."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        h = block.state["h"]
        u = torch._foreach_mul(h, -self.momentum)
        torch._foreach_mul_(h, self.momentum)
        torch._foreach_add_(h, self.regularised(block), alpha=block.rate)
        torch._foreach_add_(u, h, alpha=1.0 + self.momentum)
        torch._foreach_sub_(block.weights, u)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithoutMomentum(CaffeRule):
    delta: float = 1e-8

    def __post_init__(self) -> None:
        CaffeRule.__post_init__(self)
        require(self.momentum == 0.0, f"momentum is {self.momentum}, and cannot be used with this solver")


@rule("caffe.adagrad")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaGrad(_WithoutMomentum):
    """h += g^2; w -= n g / (sqrt(h) + d)."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h = self.regularised(block), block.state["h"]
        torch._foreach_addcmul_(h, g, g)
        divide_by_root(block.weights, g, h, rate=block.rate, delta=self.delta)


@rule("caffe.rmsprop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RMSProp(_WithoutMomentum):
    """h = rms_decay h + (1 - rms_decay) g^2; w -= n g / (sqrt(h) + d)."""

    names: ClassVar[tuple[str, ...]] = ("h",)

    rms_decay: float = 0.99

    def __post_init__(self) -> None:
        _WithoutMomentum.__post_init__(self)
        require(0.0 <= self.rms_decay < 1.0, f"rms_decay is {self.rms_decay}, expected 0 <= rms_decay < 1")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h = self.regularised(block), block.state["h"]
        average_square(h, g, keep=self.rms_decay, add=complement(self.rms_decay, g))
        divide_by_root(block.weights, g, h, rate=block.rate, delta=self.delta)


@rule("caffe.adadelta")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDelta(CaffeRule):
    """h = m h + (1 - m) g^2; u = g sqrt((h2 + d) / (h + d)); h2 = m h2 + (1 - m) u^2; w -= n u."""

    names: ClassVar[tuple[str, ...]] = ("h", "h2")

    delta: float = 1e-8

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        g, h, h2 = self.regularised(block), block.state["h"], block.state["h2"]
        add = complement(self.momentum, g)
        average_square(h, g, keep=self.momentum, add=add)
        u = torch._foreach_add(h2, self.delta)
        torch._foreach_div_(u, torch._foreach_add(h, self.delta))
        torch._foreach_sqrt_(u)
        torch._foreach_mul_(u, g)
        average_square(h2, u, keep=self.momentum, add=add)
        torch._foreach_sub_(block.weights, u, alpha=block.rate)


@rule("caffe.adam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(CaffeRule):
    """m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; w -= n c m / (sqrt(v) + d).

    b1 is ``momentum``, b2 ``momentum2``, c = sqrt(1 - b2^t) / (1 - b1^t); d is not corrected.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "v")

    momentum2: float = 0.999
    delta: float = 1e-8

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        l2 = self.regularization_type == "L2"
        adam(
            block,
            block.scaled() if l2 else self.regularised(block),
            block.state["m"],
            block.state["v"],
            betas=(self.momentum, self.momentum2),
            delta=self.delta,
            decay=block.decay if l2 else 0.0,
        )
