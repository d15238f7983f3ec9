"""Mappings from the inputs of one net to those of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import filter_shape
from netweave.comparison.execution.input_views import views_of
from netweave.comparison.layout.change import LayoutChange, reversed_order, unless_plain
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.layout.tensors import candidate_layouts
from netweave.comparison.layout.words import describe
from netweave.comparison.result.comparison import TensorMapping
from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.signals import Signals


@dataclass(frozen=True, slots=True)
class InputMapping:
    """The mapping from one input of A to one of B, whatever its size.

    Attributes:
        a: Name of A's input.
        b: Name of B's input.
        axes: As in ``LayoutChange``.
        channels: Order of the channels; None if they stay.
        channel_axis: A's axis of channels.
        flips: Axes of B's input whose entries are in reversed order.
        scale: Factor on the values.
    """

    a: str
    b: str
    axes: tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None
    channel_axis: int = 1
    flips: tuple[int, ...] = ()
    scale: float = 1.0

    @classmethod
    def from_mapping(cls, mapping: TensorMapping) -> InputMapping:
        """Return the mapping of any size that a tensor's mapping was made from."""
        flips = tuple(axis for axis, _ in mapping.orders if not mapping.is_channel_axis(axis))
        return cls(
            mapping.a,
            mapping.b,
            mapping.axes,
            mapping.channel_order,
            mapping.channel_axis,
            flips,
            mapping.scale,
        )

    def tensor_mapping(self, sizes: Sequence[int]) -> TensorMapping:
        """Return the mapping of inputs of one size, with its words.

        Args:
            sizes: Sizes of A's input.
        """
        sizes_b = self.sizes_of_b(sizes)
        orders = [(axis, reversed_order(sizes_b[axis])) for axis in self.flips]
        if self.channels is not None:
            axis = self.axes.index(self.channel_axis) if self.axes else self.channel_axis
            orders.append((axis, self.channels))
        change = LayoutChange(
            axes=self.axes, orders=tuple(orders), scale=self.scale, channel_axis=self.channel_axis
        )
        return TensorMapping.named(self.a, self.b, change, describe(change, is_input=True))

    def sizes_of_b(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of B's input for those of A's."""
        return tuple(sizes[i] for i in self.axes) if self.axes else tuple(sizes)

    def sizes_of_a(self, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the sizes of A's input for those of B's."""
        return tuple(sizes[i] for i in np.argsort(self.axes)) if self.axes else tuple(sizes)

    @property
    def num_changes(self) -> int:
        """Number of changes that it makes to the input."""
        return sum((self.axes is not None, self.channels is not None, bool(self.flips), self.scale != 1.0))


def pair_inputs(a: Signals, b: Signals) -> list[tuple[str, str]] | None:
    """Pair the inputs of two nets by name, the others in order; None if they are not as many."""
    names_a = [str(value.name) for value in a.graph.inputs]
    names_b = [str(value.name) for value in b.graph.inputs]
    if len(names_a) != len(names_b):
        return None
    same = [name for name in names_a if name in names_b]
    rest_a = [name for name in names_a if name not in same]
    rest_b = [name for name in names_b if name not in same]
    partner = {name: name for name in same} | dict(zip(rest_a, rest_b, strict=True))
    return [(name, partner[name]) for name in names_a]


def plain_mapping(a: Signals, b: Signals, pair: tuple[str, str]) -> InputMapping:
    """Return the mapping that no weights are needed for: as it is, or the axes that make the sizes fit.

    Where sizes are open, the axes in which the first filters of both nets see the input.
    """
    shape_a, shape_b = (input_shape(signals, name) for signals, name in zip((a, b), pair, strict=True))
    if shape_a[1:] == shape_b[1:]:
        return InputMapping(*pair)
    layouts = candidate_layouts((1, *shape_a[1:]), (1, *shape_b[1:]))
    fitting = next((m for m in layouts if m.shape is None and m.split is None), None)
    if fitting is not None:
        return InputMapping(*pair, axes=fitting.axes)
    return InputMapping(*pair, axes=_axes_seen(a, b, pair))


def _axes_seen(a: Signals, b: Signals, pair: tuple[str, str]) -> tuple[int, ...] | None:
    """Return the permutation after which the first filters of B see what those of A see; None for none."""
    axes_a, axes_b = (_axes_of_filters(signals, name) for signals, name in zip((a, b), pair, strict=True))
    if axes_a is None or axes_b is None or sorted(axes_a) != sorted(axes_b):
        return None
    return unless_plain([axes_a[place] for place in np.argsort(axes_b)])


def _axes_of_filters(signals: Signals, name: str) -> tuple[int, ...] | None:
    """Return the axes of an input in the order in which the first filters that read it see them."""
    views = views_of(signals)
    for node in signals.nodes:
        view = views.get(str(node.inputs[0].name)) if node.inputs and node.inputs[0] is not None else None
        if view is not None and view.name == name and filter_shape(node) is not None:
            return view.all_axes
    return None


def input_shape(signals: Signals, name: str) -> tuple[int, ...]:
    """Return the sizes of an input as declared, 0 for an open one."""
    value = next(v for v in signals.graph.inputs if v.name == name)
    declared = signals.graph.declared.get(name) or known_shape(value) or ()
    return tuple(size or 0 for size in declared)


def reoriented(mapping: InputMapping, orientation: str, a: Signals) -> InputMapping:
    """Return a mapping with the image reoriented as well; one of an input that is no image as it is."""
    if len(input_shape(a, mapping.a)) != 4:
        return mapping
    axes = list(mapping.axes or range(4))
    image = sorted((axes.index(2), axes.index(3)))
    if ORIENTATIONS[orientation].swap:
        axes[image[0]], axes[image[1]] = axes[image[1]], axes[image[0]]
    flips = tuple(axis for axis, flip in zip(image, ORIENTATIONS[orientation].flips, strict=True) if flip)
    return replace(mapping, axes=unless_plain(axes), flips=flips)


def with_channels_reversed(mapping: InputMapping, a: Signals) -> InputMapping:
    """Return a mapping with the channels reversed as well, if there are three of them."""
    shape = input_shape(a, mapping.a)
    return replace(mapping, channels=(2, 1, 0)) if len(shape) == 4 and shape[1] == 3 else mapping
