"""Update rules of Keras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import torch

from netweave.training.optim.rule import Beginning, Block, Rule, Tensors, rule, sum_of_squares
from netweave.training.optim.updater import average_square
from netweave.training.settings import require

# In the formulas w is the weight, g the clipped gradient, n the learning rate, t the number of the update
# from 1, b1 and b2 the rates of the averages, e is epsilon. Weight decay is decoupled for every optimizer:
# before the step, ``w -= n wd w`` (``BaseOptimizer._apply_weight_decay``).


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasRule(Rule):
    """Base of Keras' optimizers: clipping, then weight decay, then the optimizer's step.

    Attributes:
        weight_decay: Part of the weight that each step takes away, times the learning rate.
        clipnorm: Largest norm of the gradient of one parameter.
        clipvalue: Largest element of a gradient.
        global_clipnorm: Largest norm of all gradients together.
    """

    by_parameter: ClassVar[bool] = True  # clipnorm has a factor for each parameter
    num_sums: ClassVar[int] = 1

    weight_decay: float | None = None
    clipnorm: float | None = None
    clipvalue: float | None = None
    global_clipnorm: float | None = None

    def __post_init__(self) -> None:
        given = [
            name for name in ("clipnorm", "clipvalue", "global_clipnorm") if getattr(self, name) is not None
        ]
        require(len(given) < 2, f"{' and '.join(given)} are both given, expected one of them")
        for name in given:
            if getattr(self, name) <= 0:  # Keras takes such a limit for none
                object.__setattr__(self, name, None)

    @property
    def decay(self) -> float:
        """Weight decay, before multipliers."""
        return self.weight_decay or 0.0

    @property
    def measures(self) -> bool:
        """True if the norms of gradients are needed before the first element can change."""
        return self.clipnorm is not None or self.global_clipnorm is not None

    def measure(self, block: Block) -> torch.Tensor:
        """Return the sum of the squares of the gradients."""
        return (sum_of_squares(block.gradients) * block.scale**2).reshape(1)

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factor on the gradient of each parameter."""
        if self.clipnorm is not None:
            limit = self.clipnorm
            norms = {one.key: math.sqrt(one.sums[0]) for one in beginning.parameters}
            return {key: (limit / max(norm, limit),) for key, norm in norms.items()}
        if self.global_clipnorm is not None:
            norm = math.sqrt(sum(one.sums[0] for one in beginning.parameters))
            factor = self.global_clipnorm / max(norm, self.global_clipnorm)
            return {one.key: (factor,) for one in beginning.parameters}
        return {}

    def prepared(self, block: Block) -> Tensors:
        """Return the clipped gradients, and take weight decay off the weights."""
        gradients = block.scaled()
        if block.factors and block.factors[0] != 1.0:
            gradients = torch._foreach_mul(gradients, block.factors[0])
        if self.clipvalue is not None:
            gradients = [one.clamp(-self.clipvalue, self.clipvalue) for one in gradients]
        if block.decay:
            torch._foreach_mul_(block.weights, 1.0 - block.decay * block.rate)
        return gradients


def _approach(kept: Tensors, new: Tensors, share: float) -> None:
    """Do kept += (new - kept) share."""
    torch._foreach_lerp_(kept, new, share)


@rule("keras.sgd")
@dataclass(frozen=True, slots=True, kw_only=True)
class SGD(KerasRule):
    """m = momentum m - n g; w += m, or with Nesterov w += momentum m - n g."""

    names: ClassVar[tuple[str, ...]] = ("momentum",)

    momentum: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        KerasRule.__post_init__(self)
        require(0 <= self.momentum <= 1, f"momentum is {self.momentum}, expected 0 to 1")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients = self.prepared(block)
        if not self.momentum:
            torch._foreach_sub_(block.weights, gradients, alpha=block.rate)
            return
        kept = block.state["momentum"]
        torch._foreach_mul_(kept, self.momentum)
        torch._foreach_sub_(kept, gradients, alpha=block.rate)
        if self.nesterov:
            torch._foreach_add_(block.weights, kept, alpha=self.momentum)
            torch._foreach_sub_(block.weights, gradients, alpha=block.rate)
        else:
            torch._foreach_add_(block.weights, kept)


@rule("keras.rmsprop")
@dataclass(frozen=True, slots=True, kw_only=True)
class RMSprop(KerasRule):
    """v averages g^2, a averages g; s = n g / sqrt(v - a^2 + e), with a = 0 unless centred.

    w -= s, or with momentum m = momentum m + s; w -= m.
    """

    names: ClassVar[tuple[str, ...]] = ("velocity", "momentum", "average_gradient")

    rho: float = 0.9
    momentum: float = 0.0
    epsilon: float = 1e-7
    centered: bool = False

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, velocity = self.prepared(block), block.state["velocity"]
        average_square(velocity, gradients, keep=self.rho)
        below = velocity
        if self.centered:
            mean = block.state["average_gradient"]
            torch._foreach_mul_(mean, self.rho)
            torch._foreach_add_(mean, gradients, alpha=1.0 - self.rho)
            below = torch._foreach_addcmul(velocity, mean, mean, value=-1.0)
        root = torch._foreach_sqrt(torch._foreach_add(below, self.epsilon))
        step = torch._foreach_mul(torch._foreach_div(gradients, root), block.rate)
        if self.momentum:
            kept = block.state["momentum"]
            torch._foreach_mul_(kept, self.momentum)
            torch._foreach_add_(kept, step)
            step = kept
        torch._foreach_sub_(block.weights, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Averages(KerasRule):
    """Optimizers with an average of the gradients and one of their squares."""

    names: ClassVar[tuple[str, ...]] = ("momentum", "velocity")

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    def averaged(self, block: Block, gradients: Tensors) -> tuple[Tensors, Tensors]:
        """Take the gradients into the averages and return these."""
        mean, square = block.state["momentum"], block.state["velocity"]
        _approach(mean, gradients, 1.0 - self.beta_1)
        _approach(square, torch._foreach_mul(gradients, gradients), 1.0 - self.beta_2)
        return mean, square


@rule("keras.adam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adam(Averages):
    """w -= n sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + e); AMSGrad has the largest v so far for v."""

    names: ClassVar[tuple[str, ...]] = ("momentum", "velocity", "velocity_hat")

    amsgrad: bool = False

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        mean, square = self.averaged(block, self.prepared(block))
        if self.amsgrad:
            largest = block.state["velocity_hat"]
            torch._foreach_maximum_(largest, square)
            square = largest
        correction = math.sqrt(1.0 - self.beta_2**block.step) / (1.0 - self.beta_1**block.step)
        root = torch._foreach_add(torch._foreach_sqrt(square), self.epsilon)
        torch._foreach_addcdiv_(block.weights, mean, root, value=-block.rate * correction)


@rule("keras.adamw")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdamW(Adam):
    """Adam, with weight decay by default."""

    weight_decay: float | None = 0.004


@rule("keras.nadam")
@dataclass(frozen=True, slots=True, kw_only=True)
class Nadam(Averages):
    """Adam with Nesterov's momentum, whose b1 is u_t = b1 (1 - 0.96^t / 2); U_t is the product of all u.

    w -= n (u_{t+1} m / (1 - U_t u_{t+1}) + (1 - u_t) g / (1 - U_t)) / (sqrt(v / (1 - b2^t)) + e).
    """

    def begin(self, beginning: Beginning) -> Mapping[str, tuple[float, ...]]:
        """Return the factors on the gradients, on the average, and on the gradient in the step."""
        product = beginning.memory.get("u_product", 1.0) * self._rate_at(beginning.step)
        beginning.memory["u_product"] = product
        following = self._rate_at(beginning.step + 1)
        of_mean = following / (1.0 - product * following)
        of_gradient = (1.0 - self._rate_at(beginning.step)) / (1.0 - product)
        clipped = KerasRule.begin(self, beginning)
        keys = [one.key for one in beginning.parameters]
        return {key: (*clipped.get(key, (1.0,)), of_mean, of_gradient) for key in keys}

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients = self.prepared(block)
        mean, square = self.averaged(block, gradients)
        _, of_mean, of_gradient = block.factors
        above = torch._foreach_mul(mean, of_mean)
        torch._foreach_add_(above, gradients, alpha=of_gradient)
        root = torch._foreach_sqrt(torch._foreach_div(square, 1.0 - self.beta_2**block.step))
        torch._foreach_add_(root, self.epsilon)
        torch._foreach_addcdiv_(block.weights, above, root, value=-block.rate)

    def _rate_at(self, step: int) -> float:
        return self.beta_1 * (1.0 - 0.5 * math.pow(0.96, step))


@rule("keras.adamax")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adamax(KerasRule):
    """u = max(b2 u, |g|); w -= n m / ((1 - b1^t) (u + e))."""

    names: ClassVar[tuple[str, ...]] = ("momentum", "norm")

    beta_1: float = 0.9
    beta_2: float = 0.999
    epsilon: float = 1e-7

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, mean, norm = self.prepared(block), block.state["momentum"], block.state["norm"]
        _approach(mean, gradients, 1.0 - self.beta_1)
        torch._foreach_mul_(norm, self.beta_2)
        torch._foreach_maximum_(norm, torch._foreach_abs(gradients))
        below = torch._foreach_add(norm, self.epsilon)
        torch._foreach_addcdiv_(
            block.weights, mean, below, value=-block.rate / (1.0 - self.beta_1**block.step)
        )


@rule("keras.adagrad")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adagrad(KerasRule):
    """a += g^2; w -= n g / sqrt(a + e)."""

    names: ClassVar[tuple[str, ...]] = ("accumulator",)

    initial_accumulator_value: float = 0.1
    epsilon: float = 1e-7

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return what the sum of squares starts from."""
        return torch.full_like(weight, self.initial_accumulator_value)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, total = self.prepared(block), block.state["accumulator"]
        torch._foreach_addcmul_(total, gradients, gradients)
        root = torch._foreach_sqrt(torch._foreach_add(total, self.epsilon))
        torch._foreach_addcdiv_(block.weights, gradients, root, value=-block.rate)


@rule("keras.adadelta")
@dataclass(frozen=True, slots=True, kw_only=True)
class Adadelta(KerasRule):
    """a averages g^2; d = -sqrt(x + e) / sqrt(a + e) g; x averages d^2; w += n d."""

    names: ClassVar[tuple[str, ...]] = ("accumulated_grad", "accumulated_delta_var")

    rho: float = 0.95
    epsilon: float = 1e-7

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, squares = self.prepared(block), block.state["accumulated_grad"]
        deltas = block.state["accumulated_delta_var"]
        average_square(squares, gradients, keep=self.rho)
        above = torch._foreach_sqrt(torch._foreach_add(deltas, self.epsilon))
        below = torch._foreach_sqrt(torch._foreach_add(squares, self.epsilon))
        step = torch._foreach_mul(torch._foreach_div(above, below), gradients)
        average_square(deltas, step, keep=self.rho)
        torch._foreach_sub_(block.weights, step, alpha=block.rate)


@rule("keras.lion")
@dataclass(frozen=True, slots=True, kw_only=True)
class Lion(KerasRule):
    """w -= n sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g."""

    names: ClassVar[tuple[str, ...]] = ("momentum",)

    beta_1: float = 0.9
    beta_2: float = 0.99

    def __post_init__(self) -> None:
        KerasRule.__post_init__(self)
        require(0 < self.beta_1 <= 1, f"beta_1 is {self.beta_1}, expected above 0 and at most 1")

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, mean = self.prepared(block), block.state["momentum"]
        mixed = torch._foreach_mul(mean, self.beta_1)
        torch._foreach_add_(mixed, gradients, alpha=1.0 - self.beta_1)
        torch._foreach_sub_(block.weights, torch._foreach_sign(mixed), alpha=block.rate)
        torch._foreach_mul_(mean, self.beta_2)
        torch._foreach_add_(mean, gradients, alpha=1.0 - self.beta_2)


@rule("keras.ftrl")
@dataclass(frozen=True, slots=True, kw_only=True)
class Ftrl(KerasRule):
    """a' = a + g^2; z += g + 2 s w - (a'^-p - a^-p) / n w; a = a'.

    w = (clip(z, -l1, l1) - z) / (a^-p / n + 2 (l2 + beta / (2 n))), where s is the shrinkage and p the power.
    """

    names: ClassVar[tuple[str, ...]] = ("accumulator", "linear")

    learning_rate_power: float = -0.5
    initial_accumulator_value: float = 0.1
    l1_regularization_strength: float = 0.0
    l2_regularization_strength: float = 0.0
    l2_shrinkage_regularization_strength: float = 0.0
    beta: float = 0.0

    def first(self, name: str, weight: torch.Tensor) -> torch.Tensor:
        """Return what the sum of squares starts from, and zeros for the rest."""
        return torch.full_like(weight, self.initial_accumulator_value if name == "accumulator" else 0.0)

    def update(self, block: Block) -> None:
        """Change weights and state by one step."""
        gradients, power, l1 = (
            self.prepared(block),
            -self.learning_rate_power,
            self.l1_regularization_strength,
        )
        l2 = self.l2_regularization_strength + self.beta / (2.0 * block.rate)
        rows = zip(block.weights, gradients, block.state["accumulator"], block.state["linear"], strict=True)
        for weight, gradient, total, linear in rows:
            grown = total + gradient.square()
            linear += gradient + 2 * self.l2_shrinkage_regularization_strength * weight
            linear -= (grown.pow(power) - total.pow(power)) / block.rate * weight
            quadratic = grown.pow(power) / block.rate + 2 * l2
            weight.copy_((linear.clamp(-l1, l1) - linear) / quadratic)
            total.copy_(grown)


# The words of the formulas are those of ``rules``.


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
