"""State of nodes between calls: recurrent layers, and operators of users."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

State = tuple[Tensor, ...]


@dataclass(slots=True)
class Memory:
    """State that a recurrent layer keeps in training mode; no gradient flows back into the last call."""

    state: State | None = None

    def recall(self, like: Tensor, num: int) -> State:
        """Return the kept tensors; zeros if there are none, or if they are of another batch size."""
        if self.state is None or self.state[0].shape != like.shape:
            return (torch.zeros_like(like),) * num
        return self.state

    def capture(self) -> dict[str, np.ndarray]:
        """Return copies of what is kept, by name."""
        return {str(index): to_array(tensor) for index, tensor in enumerate(self.state or ())}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep what ``capture`` returned."""
        kept = [torch.from_numpy(arrays[name]) for name in sorted(arrays, key=int)]
        self.state = tuple(kept) if kept else None


@dataclass(slots=True)
class OperatorState:
    """State of a node of a user-defined operator: arrays, or tensors, by name.

    Attributes:
        initial: Makes what it begins with.
        values: What it keeps now; the user's function changes or replaces them.
    """

    initial: Callable[[], Mapping[str, Any]]
    values: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.values = dict(self.initial())

    def given(self, *, training: bool) -> dict[str, Any]:
        """Return what a call of the function may change: a copy in test mode, which keeps nothing."""
        if training:
            return self.values
        return {name: _copied(value) for name, value in self.values.items()}

    def capture(self) -> dict[str, np.ndarray]:
        """Return copies of what is kept, by name."""
        return {name: to_array(value) for name, value in self.values.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep what ``capture`` returned; nothing is what it began with."""
        first = dict(self.initial())
        for name, array in arrays.items():
            value = np.array(array)
            first[name] = torch.from_numpy(value) if isinstance(first.get(name), Tensor) else value
        self.values = first


NodeMemory = Memory | OperatorState


def memories(module: fx.GraphModule) -> dict[str, NodeMemory]:
    """Return what the nodes of a net, or of a stage, keep from call to call, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, NodeMemory)}


def to_array(value: Any) -> np.ndarray:
    """Return a copy of a tensor's or an array's elements in C order."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    return np.array(value, order="C")


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else np.array(value)
