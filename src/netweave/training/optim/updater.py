"""Updaters of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from netweave.errors import UsageError
from netweave.runtime.backends.torch.random import normal_words, stream_of
from netweave.training.optim.rule import (
    SLICE_ELEMENTS,
    Beginning,
    Block,
    FlatLayout,
    Multiplied,
    Piece,
    Tensors,
    Trained,
    flat_layout,
    is_dense,
    like,
    make_policy,
    make_rule,
    piece_of,
    plan,
)

if TYPE_CHECKING:
    from netweave import job


# An update begins once, with ``advance`` and ``begin``, and is then applied to the slices of the flat
# layout, in any order and on any thread, or device, that holds them. Rules that look at all gradients are
# given sums over them (``measure``), which add up over slices and so over holders.


class Update:
    """One update that has begun: what each slice needs to be changed.

    Attributes:
        step: Number of the update, from 1.
        rate: Learning rate, before multipliers.
        scale: Factor on all gradients.
        factors: Of the rule, by parameter.
    """

    __slots__ = ("_gradients", "factors", "rate", "scale", "step")

    def __init__(
        self, step: int, rate: float, scale: float, factors: Mapping[str, tuple[float, ...]]
    ) -> None:
        self.step, self.rate, self.scale, self.factors = step, rate, scale, factors
        self._gradients: dict[str, torch.Tensor] = {}

    def gradient(self, parameter: Trained) -> torch.Tensor:
        """Return a gradient, laid out as its parameter; slices of one parameter share it."""
        if parameter.key not in self._gradients:
            self._gradients[parameter.key] = like(parameter.tensor.grad, parameter.tensor)
        return self._gradients[parameter.key]


class Updater:
    """Changes parameters, once a step.

    Args:
        solver: The rule, its settings, the policy, and how many batches are accumulated.
        parameters: What to change; those with ``lr_mult`` 0 are left alone.
        seed: Of what rules draw.
        slice_elements: Most elements of a slice.
        layout: The slices, where they are not of that size.

    Attributes:
        iteration: Number of updates begun.
        rate: Learning rate of the last update, before multipliers.
        state: What the rule keeps for each parameter, by key and name.
        layout: The flat layout of the parameters.
        computes: Whether updates are computed in this process.

    Raises:
        UsageError: There is no such rule or policy, a setting is wrong, or a key occurs twice.
    """

    computes: ClassVar[bool] = True

    def __init__(
        self,
        solver: job.Solver,
        parameters: Sequence[Trained],
        *,
        seed: int = 0,
        slice_elements: int = SLICE_ELEMENTS,
        layout: FlatLayout | None = None,
    ) -> None:
        self.rule = make_rule(solver.kind, solver.settings)
        self.policy = make_policy(solver.policy)
        self.accumulate = solver.accumulate
        self.iteration = 0
        self.rate = 0.0
        trained = [parameter for parameter in parameters if parameter.lr_mult]
        self._trained = {parameter.key: parameter for parameter in trained}
        if len(self._trained) < len(trained):
            raise UsageError("two trained parameters have the same key")
        self.state = {
            parameter.key: {
                name: self.rule.first(name, parameter.tensor.detach()) for name in self.rule.names
            }
            for parameter in trained
        }
        assert all(is_dense(parameter.tensor) for parameter in trained)  # a span is a run of memory
        whole = self.rule.whole_parameters
        self.layout = layout or flat_layout(
            {key: parameter.tensor.numel() for key, parameter in self._trained.items()},
            slice_elements=slice_elements,
            whole_parameters=whole,
        )
        self._plans = [
            plan(
                spans,
                self._trained,
                by_parameter=self.rule.by_parameter,
                whole=whole,
                in_one_pass=self.rule.in_one_pass,
            )
            for spans in self.layout.slices
        ]
        self._memory: dict[str, float] = {}
        self._seed = seed

    @property
    def parameters(self) -> dict[str, torch.Tensor]:
        """The trained parameters by key, in the order of the layout."""
        return {key: parameter.tensor for key, parameter in self._trained.items()}

    def trained_by(self, key: str) -> Trained:
        """Return a trained parameter."""
        return self._trained[key]

    def together(self, stages: Sequence[int]) -> list[list[int]]:
        """Return the slices that are updated by one task, where gradients become ready one by one.

        Args:
            stages: The stage that completes the gradient of each slice.
        """
        return [[number] for number in range(len(stages))]

    def between(self) -> Callable[[], None] | None:
        """Return what is to be done between the update that has begun and the next; None for nothing."""
        return None

    def fetch(self) -> None:
        """Take over what others hold of parameters and state: nothing, where all of it is here."""

    def step(self, loss: float | None = None) -> None:
        """Change every parameter by the gradients that are there; the gradients stay as they are.

        Args:
            loss: The smoothed loss, for policies that look at it.
        """
        self.advance(loss)
        update = self.begin(self.measure() if self.rule.measures else None)
        for number in range(len(self.layout.slices)):
            self.apply(update, number)

    def measure(self, slices: Iterable[int] | None = None) -> torch.Tensor:
        """Return the rule's sums over some slices, all by default: (parameters, sums) in float64.

        Comes after ``advance``. The sums of all slices, wherever they are held, are added up for ``begin``.
        """
        rows = {key: row for row, key in enumerate(self._trained)}
        sums = torch.zeros(len(rows), self.rule.num_sums, dtype=torch.float64)
        unscaled = Update(self.iteration, 0.0, 1.0 / self.accumulate, {})
        with torch.no_grad():
            for number in range(len(self._plans)) if slices is None else slices:
                for span in self.layout.slices[number]:  # not by blocks, whose size would show in the bits
                    block = self._block([piece_of(self._trained[span.key], span)], unscaled)
                    sums[rows[span.key]] += self.rule.measure(block).cpu()
        return sums

    def advance(self, loss: float | None = None) -> float:
        """Go on to the next update; return its learning rate, before multipliers.

        Args:
            loss: The smoothed loss, for policies that look at it.
        """
        self.rate = self.policy.rate(self.rule.updates_before + self.iteration, loss)
        self.iteration += 1
        return self.rate

    def begin(self, measured: torch.Tensor | None = None) -> Update:
        """Begin the update that ``advance`` went on to.

        Args:
            measured: The sum of what ``measure`` gave, where the rule measures; a further row is of
                parameters that are updated elsewhere.
        """
        sums = [()] * len(self._trained) if measured is None else list(map(tuple, measured.tolist()))
        parameters = tuple(
            Multiplied(key, self.rate * one.lr_mult, self.rule.decay * one.decay_mult, own)
            for (key, one), own in zip(self._trained.items(), sums, strict=False)
        )
        parameters += tuple(Multiplied("", 0.0, 0.0, own) for own in sums[len(parameters) :])
        step = self.rule.updates_before + self.iteration
        beginning = Beginning(step, self.rate, self.accumulate, parameters, self._memory)
        scale = self.rule.scale(beginning)
        return Update(step, self.rate, scale, self.rule.begin(beginning))

    def apply(self, update: Update, *numbers: int) -> None:
        """Change the elements of slices."""
        with torch.no_grad():
            for number in numbers:
                for pieces in self._plans[number]:
                    self.rule.update(self._block(pieces, update))

    def _block(self, pieces: list[Piece], update: Update) -> Block:
        first = pieces[0].parameter
        return Block(
            weights=[piece.of(piece.parameter.tensor) for piece in pieces],
            gradients=[piece.of(update.gradient(piece.parameter)) for piece in pieces],
            state={
                name: [piece.of(self.state[piece.parameter.key][name]) for piece in pieces]
                for name in self.rule.names
            },
            rate=update.rate * first.lr_mult,
            decay=self.rule.decay * first.decay_mult,
            step=update.step,
            scale=update.scale * first.gradient_mult,
            factors=update.factors.get(first.key, ()),
            noise=partial(self._noise, pieces, update.step),
        )

    def _noise(self, pieces: list[Piece], step: int) -> list[torch.Tensor]:
        """Return normal numbers for each element; they depend on its place in its parameter alone."""
        noises = []
        for piece in pieces:
            weights = piece.of(piece.parameter.tensor)
            stream = stream_of(f"noise of {piece.parameter.key}")
            drawn = normal_words(self._seed, stream, step, start=piece.start, count=weights.numel())
            noise = torch.empty_like(weights)
            flat = noise.as_strided((noise.numel(),), (1,), noise.storage_offset())  # in memory's order
            flat.copy_(torch.from_numpy(drawn))
            noises.append(noise)
        return noises

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, for a checkpoint; tensors are not copied."""
        return {
            "iteration": self.iteration,
            "policy": self.policy.state(),
            "memory": dict(self._memory),
            "state": self.state,
        }

    def load_state_dict(self, content: Mapping[str, Any]) -> None:
        """Go on where ``state_dict`` was called.

        Raises:
            UsageError: The content is of other parameters or of another rule; nothing is changed then.
        """
        state: Mapping[str, Mapping[str, torch.Tensor]] = content["state"]
        wrong = [
            f"{key}: found {_shapes(state.get(key, {}))}, expected {_shapes(kept)}"
            for key, kept in self.state.items()
            if _shapes(state.get(key, {})) != _shapes(kept)
        ]
        wrong.extend(f"{key}: is not trained here" for key in state if key not in self.state)
        if wrong:
            raise UsageError("the state of the solver does not match these parameters: " + "; ".join(wrong))
        with torch.no_grad():
            for key, kept in self.state.items():
                for name, tensor in kept.items():
                    tensor.copy_(state[key][name])
        self.iteration = content["iteration"]
        self.policy.restore(content["policy"])
        self._memory = dict(content["memory"])


def _shapes(arrays: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}


FUSED_RATES = {torch.float32: 1e-8, torch.float64: 1e-4}
"""From this rate on PyTorch's kernel may be used, by type of the numbers. In double precision,
1 - (1 - rate) is then the rate to 1e-8, a sixth of what float32 tells apart, and to 1e-12."""


def heavy_ball(
    block: Block,
    gradients: Tensors,
    h: Tensors,
    *,
    momentum: float,
    sign: float = 1.0,
    scale: float = 1.0,
) -> None:
    """Do h = momentum h + sign rate (scale g + decay w); w -= sign h.

    PyTorch's kernel does b = momentum b + (1 - dampening) (g + weight_decay w); w -= lr b, in one pass over
    memory, and so the same where rate and scale are put into the dampening.
    """
    rate = block.rate * scale
    if rate >= max(map(_fused_rate, h), default=math.inf):
        torch._fused_sgd_(
            block.weights,
            gradients,
            h,
            weight_decay=block.decay / scale,
            momentum=momentum,
            lr=sign,
            dampening=1.0 - sign * rate,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
        return
    if scale != 1.0:
        gradients = torch._foreach_mul(gradients, scale)
    if block.decay:
        gradients = torch._foreach_add(gradients, block.weights, alpha=block.decay)
    torch._foreach_mul_(h, momentum)
    torch._foreach_add_(h, gradients, alpha=sign * block.rate)
    torch._foreach_sub_(block.weights, h, alpha=sign)


def descend(block: Block, gradients: Tensors, *, scale: float) -> None:
    """Do w -= rate (scale g + decay w), by PyTorch's kernel, with the scale in its rate.

    Args:
        block: What is updated.
        gradients: Of its elements.
        scale: Factor on the gradients, not 0.
    """
    torch._fused_sgd_(
        block.weights,
        gradients,
        [],
        weight_decay=block.decay / scale,
        momentum=0.0,
        lr=block.rate * scale,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )


def _fused_rate(tensor: Tensor) -> float:
    return FUSED_RATES.get(tensor.dtype, math.inf)


def complement(keep: float, tensors: Tensors) -> float:
    """Return 1 - keep, computed in the type of the tensors, as kernels of the sources do.

    In float32, 1 - 0.999 is 1.3e-5 smaller than a thousandth, which shows in the weights.
    """
    if not tensors:
        return 1.0 - keep
    return float(1.0 - torch.tensor(keep, dtype=tensors[0].dtype))


def average(kept: Tensors, new: Tensors, *, keep: float, add: float | None = None) -> None:
    """Do kept = keep kept + add new, where add is 1 - keep if not given."""
    torch._foreach_mul_(kept, keep)
    torch._foreach_add_(kept, new, alpha=1.0 - keep if add is None else add)


def average_square(kept: Tensors, new: Tensors, *, keep: float, add: float | None = None) -> None:
    """Do kept = keep kept + add new^2, where add is 1 - keep if not given."""
    torch._foreach_mul_(kept, keep)
    torch._foreach_addcmul_(kept, new, new, value=1.0 - keep if add is None else add)


def divide_by_root(weights: Tensors, above: Tensors, below: Tensors, *, rate: float, delta: float) -> None:
    """Do w -= rate above / (sqrt(below) + delta)."""
    root = torch._foreach_sqrt(below)
    torch._foreach_add_(root, delta)
    torch._foreach_addcdiv_(weights, above, root, value=-rate)


def adam_correction(beta1: float, beta2: float, step: int) -> float:
    """Return what makes up for the zeros that Adam's two averages start from."""
    return math.sqrt(1.0 - beta2**step) / (1.0 - beta1**step)


def adam(
    block: Block,
    gradients: Tensors,
    m: Tensors,
    v: Tensors,
    *,
    betas: tuple[float, float],
    delta: float,
    decay: float,
) -> float:
    """Do m, v = averages of g + decay w and its square; w -= rate m / (sqrt(v) + delta); return the rate.

    The rate is the block's, corrected. PyTorch's kernel does w -= lr / c1 m / (sqrt(v / c2) + eps), which is
    the same where lr and eps make up for its corrections c1 and c2.
    """
    rate = block.rate * adam_correction(*betas, block.step)
    beta1, beta2 = (1.0 - complement(beta, gradients) for beta in betas)
    root = math.sqrt(1.0 - beta2**block.step)
    step = torch.tensor(float(block.step), device=m[0].device)
    torch._fused_adam_(
        block.weights,
        gradients,
        m,
        v,
        [],
        [step] * len(m),
        lr=rate * (1.0 - beta1**block.step) / root,
        beta1=beta1,
        beta2=beta2,
        weight_decay=decay,
        eps=delta / root,
        amsgrad=False,
        maximize=False,
    )
    return rate
