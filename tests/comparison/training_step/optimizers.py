"""Optimizers written by hand, each in one respect another than PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

Update = Callable[[dict[str, Tensor], Tensor, int], Tensor]


class ByHand(torch.optim.Optimizer):
    """An optimizer of one function, which returns how far a parameter moves.

    Args:
        parameters: What it updates.
        rate: The learning rate.
        update: Is given the state, the gradient and the number of the update.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, update: Update) -> None:
        super().__init__(parameters, {"lr": rate})
        self._update = update

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]  # nothing is returned
        """Update all parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                number = state["number"] = state.get("number", 0) + 1
                p -= group["lr"] * self._update(state, p.grad, number)


def moments(
    state: dict[str, Tensor], g: Tensor, beta1: float = 0.9, beta2: float = 0.999
) -> tuple[Tensor, Tensor]:
    """Return the moments of Adam after a gradient."""
    state["m"] = beta1 * state.get("m", torch.zeros_like(g)) + (1 - beta1) * g
    state["v"] = beta2 * state.get("v", torch.zeros_like(g)) + (1 - beta2) * g * g
    return state["m"], state["v"]


def uncorrected_adam(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return Adam's step without the correction of its bias."""
    m, v = moments(state, g)
    return m / (v.sqrt() + 1e-8)


def adam_of_keras(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return Adam's step as Keras takes it: eps is added to the uncorrected root, and is 1e-7."""
    m, v = moments(state, g)
    return (1 - 0.999**number) ** 0.5 / (1 - 0.9**number) * m / (v.sqrt() + 1e-7)


def adam_inside(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return Adam's step with eps inside the root."""
    m, v = moments(state, g)
    return m / (1 - 0.9**number) / (v / (1 - 0.999**number) + 1e-8).sqrt()


def rmsprop_inside(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return the step of RMSprop as TensorFlow takes it: eps inside the root."""
    state["v"] = 0.99 * state.get("v", torch.zeros_like(g)) + 0.01 * g * g
    return g / (state["v"] + 1e-8).sqrt()


def adagrad_of_tensorflow(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return the step of Adagrad from a sum that begins at 0.1."""
    state["sum"] = state.get("sum", torch.full_like(g, 0.1)) + g * g
    return g / (state["sum"].sqrt() + 1e-10)


def averaged_momentum(state: dict[str, Tensor], g: Tensor, number: int) -> Tensor:
    """Return a step with a momentum that is a mean: the gradient enters with 1 - 0.9."""
    state["m"] = 0.9 * state["m"] + 0.1 * g if "m" in state else g
    return state["m"]
