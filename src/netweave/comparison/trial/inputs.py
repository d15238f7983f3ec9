"""How the inputs of one net become those of the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.layout import candidate_layouts
from netweave.comparison.align.turns import TURNS
from netweave.comparison.align.weights import filter_shape
from netweave.comparison.align.wording import describe_axes
from netweave.comparison.result.comparison import TensorMapping
from netweave.comparison.trial.views import views_of
from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.comparison.signals import Signals


@dataclass(frozen=True, slots=True)
class InputRule:
    """How one input of A becomes one of B, whatever its size.

    Attributes:
        a: Name of A's input.
        b: Name of B's input.
        axes: As in ``TensorMapping``.
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
    def from_mapping(cls, mapping: TensorMapping) -> InputRule:
        """Return the rule that a mapping was made from."""
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

    def mapping(self, sizes: Sequence[int]) -> TensorMapping:
        """Return the rule as a mapping of tensors, with its words.

        Args:
            sizes: Sizes of A's input.
        """
        sizes_b = self.sizes_of_b(sizes)
        orders = [(axis, tuple(reversed(range(sizes_b[axis])))) for axis in self.flips]
        if self.channels is not None:
            axis = self.axes.index(self.channel_axis) if self.axes else self.channel_axis
            orders.append((axis, self.channels))
        found = TensorMapping(
            self.a,
            self.b,
            axes=self.axes,
            orders=tuple(orders),
            scale=self.scale,
            channel_axis=self.channel_axis,
        )
        return replace(found, text=describe_axes(found, is_input=True))

    def sizes_of_b(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of B's input for those of A's."""
        return tuple(sizes[i] for i in self.axes) if self.axes else tuple(sizes)

    def sizes_of_a(self, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the sizes of A's input for those of B's."""
        return tuple(sizes[i] for i in np.argsort(self.axes)) if self.axes else tuple(sizes)

    @property
    def num_changes(self) -> int:
        """How many things it does to the input."""
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
    found = {name: name for name in same} | dict(zip(rest_a, rest_b, strict=True))
    return [(name, found[name]) for name in names_a]


def plain_rule(a: Signals, b: Signals, pair: tuple[str, str]) -> InputRule:
    """Return the rule that no weights are needed for: as it is, or the axes that make the sizes fit.

    Where sizes are open, the axes in which the first filters of both nets see the input.
    """
    shape_a, shape_b = (input_shape(signals, name) for signals, name in zip((a, b), pair, strict=True))
    if shape_a[1:] == shape_b[1:]:
        return InputRule(*pair)
    layouts = candidate_layouts((1, *shape_a[1:]), (1, *shape_b[1:]))
    fitting = next((mapping for mapping in layouts if mapping.shape is None), None)
    if fitting is not None:
        return InputRule(*pair, axes=fitting.axes)
    return InputRule(*pair, axes=_axes_seen(a, b, pair))


def _axes_seen(a: Signals, b: Signals, pair: tuple[str, str]) -> tuple[int, ...] | None:
    """Return the permutation after which the first filters of B see what those of A see; None for none."""
    axes_a, axes_b = (_axes_of_filters(signals, name) for signals, name in zip((a, b), pair, strict=True))
    if axes_a is None or axes_b is None or sorted(axes_a) != sorted(axes_b):
        return None
    axes = tuple(axes_a[place] for place in np.argsort(axes_b))
    return None if axes == tuple(range(len(axes))) else axes


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


def turned_rule(rule: InputRule, turn: str, a: Signals) -> InputRule:
    """Return a rule with the image turned as well; one for an input that is no image as it is."""
    if len(input_shape(a, rule.a)) != 4:
        return rule
    axes = list(rule.axes or range(4))
    image = sorted((axes.index(2), axes.index(3)))
    if TURNS[turn].swap:
        axes[image[0]], axes[image[1]] = axes[image[1]], axes[image[0]]
    flips = tuple(axis for axis, flip in zip(image, TURNS[turn].flips, strict=True) if flip)
    return replace(rule, axes=None if axes == [0, 1, 2, 3] else tuple(axes), flips=flips)


def with_channels_reversed(rule: InputRule, a: Signals) -> InputRule:
    """Return a rule with the channels reversed as well, if there are three of them."""
    shape = input_shape(a, rule.a)
    return replace(rule, channels=(2, 1, 0)) if len(shape) == 4 and shape[1] == 3 else rule
