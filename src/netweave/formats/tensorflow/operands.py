"""Operands between nodes while a net is read, besides tensors and stored arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.lowering.channels_last import Stored, Tensor


class Open:
    """A size that is not known while the net is read; a number that follows from one is open as well.

    Args:
        value: The value that has the size, where it is one.
        axis: Which of the value's axes it is.
    """

    __slots__ = ("axis", "value")

    def __init__(self, value: ir.Value | None = None, axis: int = 0) -> None:
        self.value = value
        self.axis = axis

    @property
    def symbol(self) -> str | None:
        """Return the symbol of the size, if it has one."""
        if self.value is None or self.value.shape is None:
            return None
        dim = self.value.shape[self.axis]
        return None if isinstance(dim, int) else dim.value

    def _follows(self, other: Any = None) -> Open:
        return Open()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _follows
    __floordiv__ = __rfloordiv__ = __truediv__ = __rtruediv__ = __mod__ = __rmod__ = _follows
    __neg__ = __pow__ = __rpow__ = _follows

    def __repr__(self) -> str:
        return "?"


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """Whole numbers of which some are open: what ``Shape`` gives, and what is computed from it.

    Attributes:
        numbers: An array of objects: ``int`` or ``Open``.
        dtype: The type that the source gives them.
    """

    numbers: np.ndarray
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """A variable, before it is read."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Dead:
    """The output of the branch of a condition that is not taken."""


@dataclass(frozen=True, slots=True, eq=False)
class Saved:
    """An array of a checkpoint, by its key, before it is read."""

    key: str


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """The tensors that a loop collects; None for one that is not set."""

    items: tuple[Tensor | Stored | None, ...]


Item = Tensor | Stored | Sizes | Handle | Dead | Saved | TensorList
"""What a node makes."""


def constant_of(item: Item | None) -> np.ndarray | None:
    """Return the values of a constant of the net, None for everything else."""
    return item.array if isinstance(item, Stored) and item.key is None else None


def numbers_of(item: Item | None) -> np.ndarray | None:
    """Return numbers that are known, or partly known as an array of objects; None for everything else."""
    return item.numbers if isinstance(item, Sizes) else constant_of(item)


def of_numbers(numbers: np.ndarray, dtype: np.dtype[Any]) -> Stored | Sizes:
    """Return numbers as a constant if all are known."""
    if numbers.dtype != object:
        return Stored.constant(numbers)
    if any(isinstance(number, Open) for number in numbers.flat):
        return Sizes(numbers, dtype)
    return Stored.constant(numbers.astype(dtype))
