"""Tensors and stored arrays as a source with channels last sees them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from netweave.graph.parameters import Step


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A tensor of the source and the value that holds it.

    Attributes:
        value: The value.
        first: Whether the value has on axis 1 what the source has on its last axis.
    """

    value: ir.Value
    first: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """An array of the source; it becomes an initializer, in the layout that is asked for, when it is read.

    Attributes:
        shape: Sizes as the operator that reads it sees them.
        array: Its values as the source stores them; None where no file gave them.
        key: Key of the stored array; None for a constant that is part of the net.
        role: See ``Parameter``.
        stored: Sizes as the source stores it.
        steps: Steps from those to ``shape``, which the source's own operators make.
    """

    shape: tuple[int, ...]
    array: np.ndarray | None
    key: str | None = None
    role: str = "weight"
    stored: tuple[int, ...] = ()
    steps: tuple[Step, ...] = ()

    @classmethod
    def parameter(
        cls, key: str, array: np.ndarray | None, shape: tuple[int, ...], role: str = "weight"
    ) -> Stored:
        """Return a stored array."""
        return cls(shape, array, key, role, shape)

    def reshaped(self, shape: tuple[int, ...]) -> Stored:
        """Return the array with other sizes."""
        if self.key is None and self.array is not None:
            return Stored.constant(self.array.reshape(shape))
        return replace(self, shape=shape, steps=(*self.steps, ("reshape", shape)))

    def transposed(self, perm: tuple[int, ...]) -> Stored:
        """Return the array with its axes in another order."""
        if self.key is None and self.array is not None:
            return Stored.constant(self.array.transpose(perm))
        shape = tuple(self.shape[axis] for axis in perm)
        return replace(self, shape=shape, steps=(*self.steps, ("transpose", perm)))

    def with_role(self, role: str) -> Stored:
        """Return the array as what it is to the operator that reads it."""
        return replace(self, role=role)

    @classmethod
    def constant(cls, array: np.ndarray) -> Stored:
        """Return a constant that is part of the net."""
        return cls(array.shape, array)


Operand = ir.Value | Tensor | Stored
"""What an operator reads; a value by itself has the axes in the source's order."""


def is_first(x: Operand) -> bool:
    """Return whether a tensor has on axis 1 what the source has on its last axis."""
    return isinstance(x, Tensor) and x.first


def to_first(rank: int) -> tuple[int, ...]:
    """Return the axes that bring channels from the last axis to axis 1.

    >>> to_first(4)
    (0, 3, 1, 2)
    """
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """Return the axes that bring channels from axis 1 to the last axis.

    >>> to_last(4)
    (0, 2, 3, 1)
    """
    return (0, *range(2, rank), 1)


def position(axis: int, rank: int, *, first: bool) -> int:
    """Return where an axis of the source, counted from the front, stands in the value.

    >>> [position(axis, 4, first=True) for axis in range(4)]
    [0, 2, 3, 1]
    """
    return to_last(rank)[axis] if first else axis


def arranged(sizes: Sequence[int | None], *, first: bool) -> tuple[int | None, ...]:
    """Return the sizes of a value in the order of the source's axes."""
    return tuple(sizes[axis] for axis in to_last(len(sizes))) if first else tuple(sizes)
