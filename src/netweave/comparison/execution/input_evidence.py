"""Evidence in the weights for the inputs: first layers and those behind them (decision 0125).

The filters of the first layers remember what a port did to its input: filters with height and width swapped
see an image with height and width swapped, filters with their input channels reversed see BGR for RGB. An
orientation of the image is one of the filters of all layers, so the layers behind are asked as well; if the
first layers are damaged, they are the only witnesses.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.weights import filter_shape, filters_of
from netweave.comparison.execution.input_views import View, views_of
from netweave.comparison.layout.filters import INPUTS, match_filters
from netweave.graph import attributes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import onnx_ir as ir

    from netweave.comparison.layout.change import LayoutMatch
    from netweave.comparison.signals import Signals

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
