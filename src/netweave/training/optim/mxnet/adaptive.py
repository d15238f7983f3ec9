"""MXNet's optimizers that divide by an average of squares (python/mxnet/optimizer at 1.9.1).

The words of the formulas are those of ``rules``; e is epsilon.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from netweave.errors import UsageError
from netweave.training.optim.mxnet.rules import LazyRule, MXNetRule
from netweave.training.optim.rule import Beginning, Block, Tensors, rule, sum_of_squares
from netweave.training.optim.updater import adam, average, average_square, divide_by_root
from netweave.training.settings import require


@rule("mxnet.adam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(LazyRule):
    """g' = c(g + wd w); m, v averages of g' and g'^2; w -= n_t m / (sqrt(v) + e).

    n_t = n sqrt(1 - b2^t) / (1 - b1^t).
    """

    names: ClassVar[tuple[str, ...]] = ("mean", "var")

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        if self.clip_gradient:
            self._step(block, self.decayed_then_clipped(block), decay=0.0)
        else:
            self._step(block, block.scaled(), decay=block.decay)

    def _step(self, block: Block, gradients: Tensors, *, decay: float) -> float:
        mean, var = block.state["mean"], block.state["var"]
        betas = (self.beta1, self.beta2)
        return adam(block, gradients, mean, var, betas=betas, delta=self.epsilon, decay=decay)


@rule("mxnet.adam-0.7")
@dataclass(frozen=True, slots=True, kw_only=True)
class OldAdam(Adam):
    """Up to 0.7: Adam on c(g), then w -= n_t wd w with the corrected rate n_t."""

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        rate = self._step(block, self.clipped(block), decay=0.0)
        torch._foreach_mul_(block.weights, 1.0 - rate * block.decay)


@rule("mxnet.adagrad")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaGrad(MXNetRule):
    """h += c(g)^2; w -= n (c(g) / sqrt(h + eps) + wd w)."""

    names: ClassVar[tuple[str, ...]] = ("history",)

    eps: float = 1e-7

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, history = self.clipped(block), block.state["history"]
        torch._foreach_addcmul_(history, gradients, gradients)
        step = torch._foreach_div(gradients, _root(history, self.eps))
        torch._foreach_add_(step, block.weights, alpha=block.decay)
        torch._foreach_sub_(block.weights, step, alpha=block.rate)


@rule("mxnet.groupadagrad")
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAdaGrad(MXNetRule):
    """h += mean of c(g)^2 over a row; w -= n c(g) / sqrt(h + eps). For matrices, and without decay."""

    names: ClassVar[tuple[str, ...]] = ("history",)
    by_parameter: ClassVar[bool] = True
    whole_parameters: ClassVar[bool] = True  # one number of the history belongs to a whole row

    eps: float = 1e-5

    def __post_init__(self) -> None:
        require(self.wd == 0.0, f"wd is {self.wd}, and cannot be used with this optimizer")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        (weight,), (history,), (gradient,) = block.weights, block.state["history"], self.clipped(block)
        history.add_(gradient.square().mean(1, keepdim=True))
        weight.sub_(gradient / (history + self.eps).sqrt(), alpha=block.rate)

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return a zero for each row."""
        if weight.ndim != 2:
            raise UsageError(
                f"update rule 'mxnet.groupadagrad' is for matrices; a parameter is {tuple(weight.shape)}"
            )
        return weight.new_zeros(len(weight), 1)


@rule("mxnet.rmsprop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RMSProp(MXNetRule):
    """g' = c(g + wd w); n2 average of g'^2; w -= n g' / sqrt(n2 + e).

    Centred (Graves): g1 average of g'; delta = gamma2 delta - n g' / sqrt(n2 - g1^2 + e); w += delta.
    With ``clip_weights``, w is clipped element by element in the end.
    """

    names: ClassVar[tuple[str, ...]] = ("n", "g", "delta")

    gamma1: float = 0.9
    gamma2: float = 0.9
    epsilon: float = 1e-8
    centered: bool = False
    clip_weights: float | None = None

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, n = self.decayed_then_clipped(block), block.state["n"]
        average_square(n, gradients, keep=self.gamma1)
        if self.centered:
            g, delta = block.state["g"], block.state["delta"]
            average(g, gradients, keep=self.gamma1)
            variance = torch._foreach_addcmul(n, g, g, value=-1.0)
            torch._foreach_mul_(delta, self.gamma2)
            torch._foreach_addcdiv_(delta, gradients, _root(variance, self.epsilon), value=-block.rate)
            torch._foreach_add_(block.weights, delta)
        else:
            torch._foreach_addcdiv_(block.weights, gradients, _root(n, self.epsilon), value=-block.rate)
        if self.clip_weights:
            torch._foreach_clamp_min_(block.weights, -self.clip_weights)
            torch._foreach_clamp_max_(block.weights, self.clip_weights)


@rule("mxnet.adadelta")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdaDelta(MXNetRule):
    """a average of c(g)^2; u = sqrt(b + e) / sqrt(a + e) c(g); b average of u^2; w -= u + wd w. No rate."""

    names: ClassVar[tuple[str, ...]] = ("acc_g", "acc_delta")

    rho: float = 0.9
    epsilon: float = 1e-5

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients = self.clipped(block)
        acc_g, acc_delta = block.state["acc_g"], block.state["acc_delta"]
        average_square(acc_g, gradients, keep=self.rho)
        step = _root(acc_delta, self.epsilon)
        torch._foreach_div_(step, _root(acc_g, self.epsilon))
        torch._foreach_mul_(step, gradients)
        average_square(acc_delta, step, keep=self.rho)
        torch._foreach_add_(step, block.weights, alpha=block.decay)
        torch._foreach_sub_(block.weights, step)


@rule("mxnet.ftrl")
@dataclass(frozen=True, slots=True, kw_only=True)
class Ftrl(MXNetRule):
    """z += c(g) - (sqrt(n2 + c(g)^2) - sqrt(n2)) w / n; n2 += c(g)^2.

    w = (sign(z) lamda1 - z) / ((beta + sqrt(n2)) / n + wd) where |z| > lamda1, else 0.
    """

    names: ClassVar[tuple[str, ...]] = ("z", "n")

    lamda1: float = 0.01
    beta: float = 1.0

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, z, n = self.clipped(block), block.state["z"], block.state["n"]
        shift = torch._foreach_sqrt(n)
        torch._foreach_addcmul_(n, gradients, gradients)
        root = torch._foreach_sqrt(n)
        torch._foreach_sub_(shift, root)
        torch._foreach_add_(z, gradients)
        torch._foreach_addcmul_(z, shift, block.weights, value=1.0 / block.rate)
        torch._foreach_add_(root, self.beta)
        torch._foreach_div_(root, block.rate)
        torch._foreach_add_(root, block.decay)
        for weight, above, below in zip(block.weights, z, root, strict=True):
            # sign(z) lamda1 - z where |z| > lamda1, else 0: minus the soft shrinkage of z
            weight.copy_(torch.nn.functional.softshrink(above, self.lamda1).neg_().div_(below))


@rule("mxnet.adamax")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adamax(MXNetRule):
    """g' = c(g + wd w); m average of g'; u = max(b2 u, |g'|); w -= n / (1 - b1^t) m / u.

    As in MXNet nothing keeps u from zero: an element whose gradients were all zero becomes NaN.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "u")

    beta1: float = 0.9
    beta2: float = 0.999

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, m, u = self.decayed_then_clipped(block), block.state["m"], block.state["u"]
        average(m, gradients, keep=self.beta1)
        torch._foreach_mul_(u, self.beta2)
        torch._foreach_maximum_(u, torch._foreach_abs(gradients))
        rate = block.rate / (1.0 - self.beta1**block.step)
        torch._foreach_addcdiv_(block.weights, m, u, value=-rate)


@rule("mxnet.nadam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nadam(MXNetRule):
    """Adam with Nesterov's momentum, as MXNet has it.

    b_t = b1 (1 - 0.96^(t schedule_decay) / 2) and P the product of all b_t so far; g' = c(g + wd w).
    w -= n ((1 - b_t) g' / (1 - P) + b_(t+1) m / (1 - P b_(t+1))) / (sqrt(v / (1 - b2^t)) + e).
    P goes on with each parameter, not with each step: in MXNet it is one number for all of them.
    """

    names: ClassVar[tuple[str, ...]] = ("m", "v")
    by_parameter: ClassVar[bool] = True

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    schedule_decay: float = 0.004

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return P as it is when each parameter has its turn."""
        now, _ = self._betas(beginning.step)
        numbers = {}
        product = beginning.memory.get("product", 1.0)
        for parameter in beginning.parameters:
            product *= now
            numbers[parameter.key] = (product,)
        beginning.memory["product"] = product
        return numbers

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        now, following = self._betas(block.step)
        (product,) = block.factors
        gradients, m, v = self.decayed_then_clipped(block), block.state["m"], block.state["v"]
        average(m, gradients, keep=self.beta1)
        average_square(v, gradients, keep=self.beta2)
        direction = torch._foreach_mul(gradients, (1.0 - now) / (1.0 - product))
        torch._foreach_add_(direction, m, alpha=following / (1.0 - product * following))
        variance = torch._foreach_div(v, 1.0 - self.beta2**block.step)
        divide_by_root(block.weights, direction, variance, rate=block.rate, delta=self.epsilon)

    def _betas(self, step: int) -> tuple[float, float]:
        """Return b_t of an update and of the following one."""
        now, following = (
            self.beta1 * (1.0 - 0.5 * 0.96 ** (number * self.schedule_decay)) for number in (step, step + 1)
        )
        return now, following


@rule("mxnet.ftml")
@dataclass(frozen=True, slots=True, kw_only=True)
class FTML(MXNetRule):
    """g' = c(g + wd w); v average of g'^2; d' = (1 - b1^t) / n (sqrt(v / (1 - b2^t)) + e).

    z = b1 z + (1 - b1) g' - (d' - b1 d) w; d = d'; w = -z / d.
    """

    names: ClassVar[tuple[str, ...]] = ("d", "v", "z")

    beta1: float = 0.6
    beta2: float = 0.999
    epsilon: float = 1e-8

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients = self.decayed_then_clipped(block)
        d, v, z = block.state["d"], block.state["v"], block.state["z"]
        average_square(v, gradients, keep=self.beta2)
        new = torch._foreach_div(v, 1.0 - self.beta2**block.step)
        torch._foreach_sqrt_(new)
        torch._foreach_add_(new, self.epsilon)
        torch._foreach_mul_(new, (1.0 - self.beta1**block.step) / block.rate)
        torch._foreach_mul_(d, -self.beta1)
        torch._foreach_add_(d, new)
        average(z, gradients, keep=self.beta1)
        torch._foreach_addcmul_(z, d, block.weights, value=-1.0)
        torch._foreach_copy_(d, new)
        torch._foreach_copy_(block.weights, torch._foreach_neg(torch._foreach_div(z, d)))


@rule("mxnet.lamb")
@dataclass(frozen=True, slots=True, kw_only=True)
class LAMB(MXNetRule):
    """u = m / (sqrt(v) + e) + wd w, m and v averages of c(g) and its square, corrected; w -= n r u.

    r = |w| / |u| with |w| held between the bounds, 1 where either norm is 0.
    """

    names: ClassVar[tuple[str, ...]] = ("mean", "var")
    by_parameter: ClassVar[bool] = True

    num_sums: ClassVar[int] = 2

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    lower_bound: float | None = None
    upper_bound: float | None = None
    bias_correction: bool = True

    def measure(self, block: Block) -> torch.Tensor:
        """Return the sums of w^2 and of u^2, u being made from copies of the averages."""
        averages = [[tensor.clone() for tensor in block.state[name]] for name in self.names]
        # the averages are of rescaled gradients, and what is measured is not scaled yet
        direction = self._direction(replace(block, scale=self.rescale_grad), *averages)
        return torch.stack([sum_of_squares(block.weights), sum_of_squares(direction)])

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return r of each parameter."""
        return {parameter.key: (self._ratio(*parameter.sums),) for parameter in beginning.parameters}

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        direction = self._direction(block, block.state["mean"], block.state["var"])
        torch._foreach_sub_(block.weights, direction, alpha=block.rate * block.factors[0])

    def _direction(self, block: Block, mean: Tensors, var: Tensors) -> Tensors:
        """Return u; the averages go on by one step."""
        gradients = self.clipped(block)
        average(mean, gradients, keep=self.beta1)
        average_square(var, gradients, keep=self.beta2)
        above, below = 1.0, 1.0
        if self.bias_correction:
            above, below = 1.0 - self.beta1**block.step, 1.0 - self.beta2**block.step
        direction: Tensors = torch._foreach_mul(block.weights, block.decay)
        root = torch._foreach_sqrt(torch._foreach_div(var, below))
        torch._foreach_add_(root, self.epsilon)
        torch._foreach_addcdiv_(direction, mean, root, value=1.0 / above)
        return direction

    def _ratio(self, weights: float, directions: float) -> float:
        """Return r from the sums of squares."""
        above, below = math.sqrt(weights), math.sqrt(directions)
        if self.lower_bound:
            above = max(above, self.lower_bound)
        if self.upper_bound:
            above = min(above, self.upper_bound)
        return above / below if above and below else 1.0


def _root(tensors: Tensors, epsilon: float) -> Tensors:
    """Return sqrt(tensors + epsilon)."""
    root: Tensors = torch._foreach_add(tensors, epsilon)
    torch._foreach_sqrt_(root)
    return root
