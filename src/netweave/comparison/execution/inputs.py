"""Inputs of the compared nets: evidence and mapping."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import filter_shape, filters_of
from netweave.comparison.execution.input_domains import View, domain_of, views_of
from netweave.comparison.layout.change import LayoutChange, reversed_order, unless_plain
from netweave.comparison.layout.filters import INPUTS, match_filters
from netweave.comparison.layout.orientation import ORIENTATIONS
from netweave.comparison.layout.tensors import candidate_layouts
from netweave.comparison.layout.wording import describe
from netweave.comparison.result.comparison import TensorMapping
from netweave.graph import attributes_of, known_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import onnx_ir as ir

    from netweave.comparison.layout.change import LayoutMatch
    from netweave.comparison.metric import Signals


# The filters of the first layers remember what a port did to its input: filters with height and width
# swapped see an image with height and width swapped, filters with their input channels reversed see BGR for
# RGB. An orientation of the image is one of the filters of all layers, so the layers behind are asked as
# well; if the first layers are damaged, they are the only witnesses.

if TYPE_CHECKING:
    NodePair = tuple[ir.Node, ir.Node]

# Without any, a first layer that is itself turned or mirrored is believed, and the wrong layers are blamed
# (six tests of damaged layers fail). There are several, so that a damaged one among them is outvoted. There
# is a limit, since each takes time: 16 ms for 64 x 64 filters of 3 x 3, 0.7 s for 512 x 512.
MAX_VOTERS = 12
"""Pairs of filters behind the first layers that are asked for the orientation: the first, which are small."""


@dataclass(frozen=True, slots=True)
class FirstLayer:
    """The input mappings that the weights of one pair, or group, of first layers imply.

    Attributes:
        views: What A's layer and B's layer see.
        channel_place: Which axis of what they see is that of the channels.
        channels: Which channels of the input each of the two reads, in the order in which it does.
        match: How A's filters became B's.
    """

    views: tuple[View, View]
    channel_place: int
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    match: LayoutMatch

    @property
    def is_spatial(self) -> bool:
        """True if the filters see an image, and more than one place of it."""
        return len(self.views[0].axes) == 4 and self.channel_place == 1

    def sources(self) -> dict[int, int]:
        """Return, by channel of B's input, the channel of A's input that it holds."""
        own, other = self.channels
        order = self.match.change.order_along(INPUTS) or range(len(own))
        return {other[place]: own[source] for place, source in enumerate(order)}


@dataclass(slots=True)
class Evidence:
    """The input mappings that all weights imply.

    Attributes:
        firsts: The first layers by their inputs, (A's, B's).
        first_votes: How many first layers speak for an orientation, by its key in ``ORIENTATIONS``.
        later_votes: How many of the layers behind do.
    """

    firsts: dict[tuple[str, str], list[FirstLayer]] = field(default_factory=lambda: defaultdict(list))
    first_votes: Counter[str] = field(default_factory=Counter)
    later_votes: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(
        cls, a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: Sequence[NodePair]
    ) -> Evidence:
        """Ask all first layers, and some of those behind them.

        Args:
            a: Signals of the first net.
            b: Signals of the second net.
            pairs: Which input belongs to which.
            weights: Pairs of nodes with the same weights, in A's order.
        """
        evidence = cls()
        views = views_of(a), views_of(b)
        for node_a, node_b in [*weights, *_first_alike(a, b, views, weights)]:
            seen = _view(views[0], node_a), _view(views[1], node_b)
            if seen[0] is not None and seen[1] is not None and (seen[0].name, seen[1].name) in pairs:
                evidence._add_first(node_a, node_b, (seen[0], seen[1]))
            elif evidence.later_votes.total() < MAX_VOTERS and _is_spatial(node_a):
                match = _match(node_a, node_b)
                if match is not None:
                    evidence.later_votes[match.change.orientation] += 1
        return evidence

    def orientations(self) -> list[str]:
        """Return the orientations that any layer speaks for, those of the layers behind first."""
        votes = self.first_votes | self.later_votes
        return sorted(votes, key=lambda name: (-self.later_votes[name], -self.first_votes[name]))

    def support(self, orientation: str) -> int:
        """Return how many layers speak for an orientation, the first ones among them."""
        return self.first_votes[orientation] + self.later_votes[orientation]

    def _add_first(self, node_a: ir.Node, node_b: ir.Node, views: tuple[View, View]) -> None:
        for layer in _first_layers(node_a, node_b, views):
            self.firsts[views[0].name, views[1].name].append(layer)
            if layer.is_spatial and _is_spatial(node_a):
                self.first_votes[layer.match.change.orientation] += 1


def _view(views: dict[str, View], node: ir.Node) -> View | None:
    value = node.inputs[0]
    return None if value is None or filter_shape(node) is None else views.get(str(value.name))


def _is_spatial(node: ir.Node) -> bool:
    shape = filter_shape(node)
    return shape is not None and len(shape) >= 4 and max(shape[2:]) > 1


def _match(node_a: ir.Node, node_b: ir.Node) -> LayoutMatch | None:
    filters_a, filters_b = filters_of(node_a), filters_of(node_b)
    return None if filters_a is None or filters_b is None else match_filters(filters_a, filters_b)


def _first_alike(
    a: Signals, b: Signals, views: tuple[dict[str, View], dict[str, View]], weights: Iterable[NodePair]
) -> list[NodePair]:
    """Pair the first layers whose weights say nothing, for they differ too much, by their shapes."""
    matched = {id(node) for pair in weights for node in pair}
    by_shape: list[dict[object, list[ir.Node]]] = []
    for signals, seen in zip((a, b), views, strict=True):
        left: dict[object, list[ir.Node]] = defaultdict(list)
        for node in signals.nodes:
            if id(node) not in matched and _view(seen, node) is not None:
                left[node.op_type, filter_shape(node)].append(node)
        by_shape.append(left)
    return [
        pair
        for key, nodes in by_shape[0].items()
        if len(nodes) == len(by_shape[1].get(key, ()))
        for pair in zip(nodes, by_shape[1][key], strict=True)
    ]


def _first_layers(node_a: ir.Node, node_b: ir.Node, views: tuple[View, View]) -> Iterator[FirstLayer]:
    """Yield what a pair of first layers implies, group by group."""
    filters_a, filters_b = filters_of(node_a), filters_of(node_b)
    groups = [attributes_of(node).get("group", 1) for node in (node_a, node_b)]
    if filters_a is None or filters_b is None or groups[0] != groups[1] or node_a.op_type == "ConvTranspose":
        return
    if len(views[0].axes) != len(views[1].axes) or len(filters_a) % groups[0] or len(filters_b) % groups[0]:
        return
    place = 1 if "Conv" in node_a.op_type else len(views[0].axes) - 1
    depths = filters_a.shape[1], filters_b.shape[1]
    groups_of_filters = (np.split(filters, groups[0]) for filters in (filters_a, filters_b))
    for group, (part_a, part_b) in enumerate(zip(*groups_of_filters, strict=True)):
        match = match_filters(part_a, part_b)
        channels = [
            _channels(view, place, group * depth, depth) for view, depth in zip(views, depths, strict=True)
        ]
        if match is not None and channels[0] is not None and channels[1] is not None:
            yield FirstLayer(views, place, (channels[0], channels[1]), match)


def _channels(view: View, place: int, begin: int, depth: int) -> tuple[int, ...] | None:
    """Return the channels of the input that a group of filters reads."""
    entries = view.entries[place]
    channels = tuple(range(begin, begin + depth)) if entries is None else entries[begin : begin + depth]
    return channels if len(channels) == depth else None


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


KINDS = frozenset({"mask", "positions", "segments"})
"""Kinds of inputs that come with the tokens of a text."""


def kind_of(value: ir.Value) -> str:
    """Return the kind of input by its name, or by what is computed of it; empty for what must be given."""
    name = str(value.name).lower()
    of_values = domain_of(value).kind
    if of_values in KINDS or "mask" in name:
        return of_values if of_values in KINDS else "mask"
    return "segments" if "token_type" in name or "segment" in name else ""


def pair_inputs(a: Signals, b: Signals) -> list[tuple[str, str]] | None:
    """Pair the inputs of two nets by name, by kind, or else in order; None if they are not as many."""
    names_a = [str(value.name) for value in a.graph.inputs]
    names_b = [str(value.name) for value in b.graph.inputs]
    if len(names_a) != len(names_b):
        return None
    same = [name for name in names_a if name in names_b]
    rest_a = [name for name in names_a if name not in same]
    rest_b = [name for name in names_b if name not in same]
    if len(rest_a) > 1:
        kinds_a, kinds_b = ({str(v.name): kind_of(v) for v in net.graph.inputs} for net in (a, b))
        if Counter(map(kinds_a.get, rest_a)) == Counter(map(kinds_b.get, rest_b)):
            rest_a.sort(key=lambda name: kinds_a[name])
            rest_b.sort(key=lambda name: kinds_b[name])
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
