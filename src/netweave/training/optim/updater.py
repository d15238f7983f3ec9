"""Applying a rule to the parameters of a net, at the rates of a policy, and remembering where it was.

An update begins once, with ``advance`` and ``begin``, and is then applied to the slices of the flat layout,
in any order and on any thread, or device, that holds them. Rules that look at all gradients are given sums
over them (``measure``), which add up over slices and so over holders.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import UsageError
from netweave.runtime.backends.torch.draws import normal_words, stream_of
from netweave.training.optim.blocks import is_dense, like, piece_of, plan
from netweave.training.optim.layout import SLICE_ELEMENTS, flat_layout
from netweave.training.optim.policy import make_policy
from netweave.training.optim.rule import Beginning, Block, Multiplied, make_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from netweave import job
    from netweave.training.optim.blocks import Piece, Trained


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

    Attributes:
        iteration: Number of updates begun.
        rate: Learning rate of the last update, before multipliers.
        state: What the rule keeps for each parameter, by key and name.
        layout: The flat layout of the parameters.

    Raises:
        UsageError: There is no such rule or policy, a setting is wrong, or a key occurs twice.
    """

    def __init__(
        self,
        solver: job.Solver,
        parameters: Sequence[Trained],
        *,
        seed: int = 0,
        slice_elements: int = SLICE_ELEMENTS,
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
        self.layout = flat_layout(
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
        found = torch.zeros(len(rows), self.rule.num_sums, dtype=torch.float64)
        unscaled = Update(self.iteration, 0.0, 1.0 / self.accumulate, {})
        with torch.no_grad():
            for number in range(len(self._plans)) if slices is None else slices:
                for span in self.layout.slices[number]:  # not by blocks, whose size would show in the bits
                    block = self._block([piece_of(self._trained[span.key], span)], unscaled)
                    found[rows[span.key]] += self.rule.measure(block).cpu()
        return found

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
            measured: The sum of what ``measure`` gave, where the rule measures.
        """
        sums = [()] * len(self._trained) if measured is None else map(tuple, measured.tolist())
        parameters = tuple(
            Multiplied(key, self.rate * one.lr_mult, self.rule.decay * one.decay_mult, own)
            for (key, one), own in zip(self._trained.items(), sums, strict=True)
        )
        step = self.rule.updates_before + self.iteration
        beginning = Beginning(step, self.rate, self.accumulate, parameters, self._memory)
        scale = self.rule.scale(beginning)
        return Update(step, self.rate, scale, self.rule.begin(beginning))

    def apply(self, update: Update, number: int) -> None:
        """Change the elements of one slice."""
        with torch.no_grad():
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
        found = []
        for piece in pieces:
            weights = piece.of(piece.parameter.tensor)
            stream = stream_of(f"noise of {piece.parameter.key}")
            drawn = normal_words(self._seed, stream, step, start=piece.start, count=weights.numel())
            noise = torch.empty_like(weights)
            flat = noise.as_strided((noise.numel(),), (1,), noise.storage_offset())  # in memory's order
            flat.copy_(torch.from_numpy(drawn))
            found.append(noise)
        return found

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
        found: Mapping[str, Mapping[str, torch.Tensor]] = content["state"]
        wrong = [
            f"{key}: found {_shapes(found.get(key, {}))}, expected {_shapes(kept)}"
            for key, kept in self.state.items()
            if _shapes(found.get(key, {})) != _shapes(kept)
        ]
        wrong.extend(f"{key}: is not trained here" for key in found if key not in self.state)
        if wrong:
            raise UsageError("the state of the solver does not match these parameters: " + "; ".join(wrong))
        with torch.no_grad():
            for key, kept in self.state.items():
                for name, tensor in kept.items():
                    tensor.copy_(found[key][name])
        self.iteration = content["iteration"]
        self.policy.restore(content["policy"])
        self._memory = dict(content["memory"])


def _shapes(arrays: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}
