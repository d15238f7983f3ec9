"""The one type for a change of layout: of activations, of filters and of stored arrays alike."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.layout.orientation import ORIENTATIONS, Orientation

if TYPE_CHECKING:
    from collections.abc import Sequence

Order = tuple[int, ...]
"""Entry ``i`` along an axis is entry ``order[i]`` of what it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutChange:
    """The mapping from an array of A to its counterpart in B; steps are applied in the order of the fields.

    Attributes:
        split: Sizes that A's array is first reshaped to, as of an image that was flattened; None for its own.
        axes: ``b = a.transpose(axes)``; None where the axes stay.
        orders: ``(axis, order)``: after the axes, entry ``i`` along the axis is entry ``order[i]``.
        shape: Sizes in B, -1 for the batch, where the number of axes changes; None otherwise.
        scale: Factor on the values.
        channel_axis: A's axis of channels.
        letters: Names of A's axes, such as ``OIHW``, where they are known.
    """

    split: tuple[int, ...] | None = None
    axes: tuple[int, ...] | None = None
    orders: tuple[tuple[int, Order], ...] = ()
    shape: tuple[int, ...] | None = None
    scale: float = 1.0
    channel_axis: int = 1
    letters: str = ""

    @property
    def is_identity(self) -> bool:
        """True if the values keep their order and size; a mere reshape is no change to who reads them."""
        return self.axes is None and not self.orders and self.scale == 1.0

    @property
    def letters_in_b(self) -> str:
        """Names of B's axes before its array is reshaped."""
        return "".join(self.letters[axis] for axis in self.axes) if self.axes else self.letters

    @property
    def channel_order(self) -> Order | None:
        """The order of the channels; None if they stay."""
        return next((order for axis, order in self.orders if self.is_channel_axis(axis)), None)

    @property
    def orientation(self) -> str:
        """The change of the last two axes of filters, as a key of ``ORIENTATIONS``."""
        rank = len(self.axes) if self.axes else 4
        image = rank - 2, rank - 1
        swap = self.axes is not None and self.axes[-2:] == image[::-1]
        rows, columns = (self.order_along(axis) is not None for axis in image)
        wanted = Orientation(swap, (rows, columns))
        return next(name for name, orientation in ORIENTATIONS.items() if orientation == wanted)

    def is_channel_axis(self, axis: int) -> bool:
        """Return whether an axis of B is that of the channels."""
        return (self.axes[axis] if self.axes else axis) == self.channel_axis

    def order_along(self, axis: int) -> Order | None:
        """Return the order of the entries along an axis of B; None if they stay."""
        return next((order for other, order in self.orders if other == axis), None)

    def apply(self, array: np.ndarray) -> np.ndarray:
        """Return A's array in B's layout."""
        if self.split is not None:
            array = array.reshape(self.split)
        if self.axes is not None:
            array = array.transpose(self.axes)
        for axis, order in self.orders:
            array = np.take(array, order, axis=axis)
        if self.shape is not None:
            # -1 would be ambiguous to numpy where another size is 0
            rest = prod(self.shape[1:])
            batch = array.size // rest if rest else array.shape[0]
            array = array.reshape([batch if size == -1 else size for size in self.shape])
        return array if self.scale == 1.0 else array * np.asarray(self.scale, array.dtype)

    def shape_in_a(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of A's array for those of B's; the same if the number of axes changes."""
        if self.axes is None or len(self.axes) != len(shape):
            return tuple(shape)
        return tuple(shape[self.axes.index(axis)] for axis in range(len(shape)))


@dataclass(frozen=True, slots=True, eq=False)
class LayoutMatch:
    """An array of A with its layout changed, held against one of B.

    Attributes:
        change: The change under which the fewest elements differ.
        num_different: Elements that differ all the same.
        num_elements: Elements in all.
        worst: Index in B of the largest difference; None if none differs.
        error: The largest difference, relative to the rms of A's array.
        factors: Factor of each output channel of B on A's; None if all are 1.
    """

    change: LayoutChange
    num_different: int
    num_elements: int
    worst: tuple[int, ...] | None = None
    error: float = 0.0
    factors: np.ndarray | None = None

    @property
    def is_equal(self) -> bool:
        """True if the arrays are the same but for the change and the factors."""
        return self.num_different == 0


def reversed_order(size: int) -> Order:
    """Return the order of entries that stand in reverse."""
    return tuple(reversed(range(size)))


def unless_plain(order: Sequence[int] | None) -> Order | None:
    """Return an order; None if it leaves every entry where it is."""
    return None if order is None or tuple(order) == tuple(range(len(order))) else tuple(order)
