"""Applying a rule to the parameters of a net, at the rates of a policy, and remembering where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from netweave.errors import UsageError
from netweave.optim.blocks import like, plan
from netweave.optim.policy import make_policy
from netweave.optim.rule import Block, make_rule

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave import job
    from netweave.optim.blocks import Piece, Trained


class Updater:
    """Changes parameters, once a step.

    Args:
        solver: The rule, its settings, the policy, and how many batches are accumulated.
        parameters: What to change; those with ``lr_mult`` 0 are left alone.
        seed: Of the generator that rules draw from.

    Attributes:
        iteration: Number of updates done.
        rate: Learning rate of the last update, before multipliers.
        state: What the rule keeps for each parameter, by key and name.

    Raises:
        UsageError: There is no such rule or policy, a setting is wrong, or a key occurs twice.
    """

    def __init__(self, solver: job.Solver, parameters: Sequence[Trained], *, seed: int = 0) -> None:
        self.rule = make_rule(solver.kind, solver.settings)
        self.policy = make_policy(solver.policy)
        self.accumulate = solver.accumulate
        self.iteration = 0
        self.rate = 0.0
        self._trained = [parameter for parameter in parameters if parameter.lr_mult]
        self.state = {
            parameter.key: {
                name: self.rule.first(name, parameter.tensor.detach()) for name in self.rule.names
            }
            for parameter in self._trained
        }
        if len(self.state) < len(self._trained):
            raise UsageError("two parameters to be trained have the same key")
        self._plan = plan(self._trained, by_parameter=self.rule.by_parameter)
        self._memory: dict[str, float] = {}
        self._generator = torch.Generator().manual_seed(seed)

    def step(self, loss: float | None = None) -> None:
        """Change every parameter by the gradients that are there; the gradients stay as they are.

        Args:
            loss: The smoothed loss, for policies that look at it.
        """
        self.rate = self.policy.rate(self.iteration, loss)
        with torch.no_grad():
            gradients = {p.key: like(p.tensor.grad, p.tensor) for p in self._trained}
            scale = self.rule.scale(list(gradients.values()), self.accumulate)
            for pieces in self._plan:
                self.rule.update(self._block(pieces, gradients, scale))
        self.iteration += 1

    def _block(self, pieces: list[Piece], gradients: Mapping[str, torch.Tensor], scale: float) -> Block:
        first = pieces[0].parameter
        return Block(
            weights=[piece.of(piece.parameter.tensor) for piece in pieces],
            gradients=[piece.of(gradients[piece.parameter.key]) for piece in pieces],
            state={
                name: [piece.of(self.state[piece.parameter.key][name]) for piece in pieces]
                for name in self.rule.names
            },
            base_rate=self.rate,
            rate=self.rate * first.lr_mult,
            decay=self.rule.decay * first.decay_mult,
            step=self.iteration + 1,
            scale=scale,
            memory=self._memory,
            generator=self._generator,
            key=first.key if self.rule.by_parameter else "",
        )

    def state_dict(self) -> dict[str, Any]:
        """Return all that the next steps depend on, for a checkpoint; tensors are not copied."""
        return {
            "iteration": self.iteration,
            "policy": self.policy.state(),
            "memory": dict(self._memory),
            "generator": self._generator.get_state(),
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
            raise UsageError("the solver's state does not fit these parameters: " + "; ".join(wrong))
        with torch.no_grad():
            for key, kept in self.state.items():
                for name, tensor in kept.items():
                    tensor.copy_(found[key][name])
        self.iteration = content["iteration"]
        self.policy.restore(content["policy"])
        self._memory = dict(content["memory"])
        self._generator.set_state(content["generator"])


def _shapes(arrays: Mapping[str, torch.Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(array.shape) for name, array in arrays.items()}
