"""Update rules, policies and fillers of Caffe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from netweave.training.optim.first_values import Shape, bilinear, filler
from netweave.training.optim.rule import Beginning, Block, Policy, Rule, Tensors, policy, rule, sum_of_squares
from netweave.training.optim.updater import adam, average_square, complement, divide_by_root, heavy_ball
from netweave.training.settings import require

# A filler message has the fields of all fillers; what one of them does not use is ignored, as in Caffe.

VARIANCE_NORM = ("FAN_IN", "FAN_OUT", "AVERAGE")
"""The names of the enumeration, by number."""


def fan(shape: Shape, variance_norm: str | int) -> float:
    """Return n of Xavier and MSRA: of the sizes as they stand, whatever they mean to the layer.

    Raises:
        ValueError: There is no such way to count.
    """
    count = math.prod(shape)
    fan_in, fan_out = count / shape[0], count / shape[1] if len(shape) > 1 else count
    fans = {"FAN_IN": fan_in, "FAN_OUT": fan_out, "AVERAGE": (fan_in + fan_out) / 2}
    name = VARIANCE_NORM[variance_norm] if isinstance(variance_norm, int) else variance_norm
    if name not in fans:
        raise ValueError(f"variance_norm is {variance_norm}, expected {', '.join(fans)}")
    return fans[name]


@filler("caffe.constant")
def constant(shape: Shape, generator: np.random.Generator, value: float = 0.0, **ignored: Any) -> np.ndarray:
    """Return one value."""
    return np.full(shape, value)


@filler("caffe.uniform")
def uniform(
    shape: Shape,
    generator: np.random.Generator,
    min: float = 0.0,  # noqa: A002 - the message's own names
    max: float = 1.0,  # noqa: A002
    **ignored: Any,
) -> np.ndarray:
    """Return numbers between two bounds."""
    return generator.uniform(min, max, shape)


@filler("caffe.gaussian")
def gaussian(
    shape: Shape,
    generator: np.random.Generator,
    mean: float = 0.0,
    std: float = 1.0,
    sparse: int = -1,
    **ignored: Any,
) -> np.ndarray:
    """Return normal numbers; with ``sparse`` from 0 on, each is kept with probability sparse / shape[0]."""
    values = generator.normal(mean, std, shape)
    if sparse >= 0:
        values *= generator.random(shape) < sparse / shape[0]
    return values


@filler("caffe.positive_unitball")
def positive_unitball(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return rows (along axis 0) of numbers above 0 with sum 1."""
    rows = generator.random((shape[0], math.prod(shape[1:])))
    rows /= rows.sum(axis=1, keepdims=True)
    return rows.reshape(shape)


@filler("caffe.gaussian_unitball")
def gaussian_unitball(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return rows (along axis 0) of normal numbers, of length 1; of the forks for faces."""
    rows: np.ndarray = generator.normal(size=(shape[0], math.prod(shape[1:])))
    rows /= np.sqrt((rows**2).sum(axis=1, keepdims=True) + 1e-12)
    return rows.reshape(shape)


@filler("caffe.xavier")
def xavier(
    shape: Shape, generator: np.random.Generator, variance_norm: str | int = "FAN_IN", **ignored: Any
) -> np.ndarray:
    """Return numbers between -sqrt(3 / n) and sqrt(3 / n)."""
    bound = math.sqrt(3.0 / fan(shape, variance_norm))
    return generator.uniform(-bound, bound, shape)


@filler("caffe.msra")
def msra(
    shape: Shape, generator: np.random.Generator, variance_norm: str | int = "FAN_IN", **ignored: Any
) -> np.ndarray:
    """Return normal numbers of variance 2 / n."""
    return generator.normal(0.0, math.sqrt(2.0 / fan(shape, variance_norm)), shape)


@filler("caffe.bilinear")
def interpolation(shape: Shape, generator: np.random.Generator, **ignored: Any) -> np.ndarray:
    """Return the weights of an up-sampling."""
    half = (shape[-1] + 1) // 2
    return bilinear(shape, half=half, centre=(shape[-1] - 1) / (2.0 * half))


@policy("caffe.fixed")
@dataclass(slots=True, kw_only=True)
class Fixed(Policy):
    """base_lr."""

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate


@policy("caffe.step")
@dataclass(slots=True, kw_only=True)
class Step(Policy):
    """base_lr gamma^floor(it / stepsize)."""

    gamma: float
    stepsize: int

    def __post_init__(self) -> None:
        require(self.stepsize > 0, f"stepsize is {self.stepsize}, expected more than 0")
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma ** (iteration // self.stepsize)


@policy("caffe.exp")
@dataclass(slots=True, kw_only=True)
class Exp(Policy):
    """base_lr gamma^it."""

    gamma: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * self.gamma**iteration


@policy("caffe.inv")
@dataclass(slots=True, kw_only=True)
class Inv(Policy):
    """base_lr (1 + gamma it)^(-power)."""

    gamma: float
    power: float

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * math.pow(1.0 + self.gamma * iteration, -self.power)


@policy("caffe.multistep")
@dataclass(slots=True, kw_only=True)
class MultiStep(Policy):
    """base_lr gamma^current_step; current_step grows by at most one in an iteration.

    Attributes:
        gamma: Factor of each step.
        stepvalue: The iteration from which on step i is due.
        current_step: Steps taken; it is kept in Caffe's solverstate.
    """

    gamma: float
    stepvalue: list[int]
    current_step: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        require(self.gamma >= 0, f"gamma is {self.gamma}, expected at least 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        if self.current_step < len(self.stepvalue) and iteration >= self.stepvalue[self.current_step]:
            self.current_step += 1
        return self.base_rate * self.gamma**self.current_step


@policy("caffe.poly")
@dataclass(slots=True, kw_only=True)
class Poly(Policy):
    """base_lr (1 - it / max_iter)^power: zero at max_iter."""

    power: float
    max_iter: int

    def __post_init__(self) -> None:
        require(self.max_iter > 0, f"max_iter is {self.max_iter}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        return self.base_rate * math.pow(1.0 - iteration / self.max_iter, self.power)


@policy("caffe.sigmoid")
@dataclass(slots=True, kw_only=True)
class Sigmoid(Policy):
    """base_lr / (1 + exp(-gamma (it - stepsize)))."""

    gamma: float
    stepsize: int

    def __post_init__(self) -> None:
        # with gamma < 0 the rate falls at the step; Caffe checks the sign since 2017, older solvers have it
        require(self.stepsize > 0, f"stepsize is {self.stepsize}, expected more than 0")

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        power = -self.gamma * (iteration - self.stepsize)
        # beyond the range of exp the rate is as near to zero as Caffe's infinity makes it
        return self.base_rate / (1.0 + math.exp(power)) if power < 700.0 else 0.0


@policy("caffe.plateau")
@dataclass(slots=True, kw_only=True)
class Plateau(Policy):
    """base_lr gamma^current_step; a step is due when the loss has found no new minimum for long enough.

    Attributes:
        gamma: Factor of each step.
        plateau_winsize: So many iterations without a new minimum make step i due.
        current_step: Steps taken.
        minimum_loss: Smallest smoothed loss so far.
        iter_last_event: Iteration of the last new minimum or step.
    """

    gamma: float
    plateau_winsize: list[int]
    current_step: int = field(default=0, init=False)
    minimum_loss: float = field(default=1e38, init=False)
    iter_last_event: int = field(default=0, init=False)

    def rate(self, iteration: int, loss: float | None = None) -> float:
        """Return the rate of an iteration."""
        if loss is not None and loss < self.minimum_loss:
            self.minimum_loss, self.iter_last_event = loss, iteration
        if (
            self.current_step < len(self.plateau_winsize)
            and iteration >= self.iter_last_event + self.plateau_winsize[self.current_step]
        ):
            self.current_step += 1
            self.iter_last_event = iteration
        return self.base_rate * self.gamma**self.current_step


# Common to all: gradients are clipped together by their L2 norm, divided by ``iter_size``, then
# regularised; the local rate is the rate times ``lr_mult``, the local decay ``weight_decay`` times
# ``decay_mult``. In the formulas g is the regularised gradient, n the local rate, d delta, w the weights.


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
