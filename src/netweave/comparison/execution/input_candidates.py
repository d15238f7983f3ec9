"""The ways in which one net may take the other's inputs: what the weights imply, and what else is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution.inputs import (
    Evidence,
    InputMapping,
    input_shape,
    plain_mapping,
    reoriented,
    with_channels_reversed,
)
from netweave.comparison.layout.change import unless_plain
from netweave.comparison.layout.orientation import ORIENTATIONS, SWAPPED
from netweave.comparison.metric import FACTOR_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.comparison.execution.inputs import FirstLayer
    from netweave.comparison.metric import Signals

MAX_CANDIDATES = 8
"""More ways to take the inputs are not tried."""

MAX_ORDERS = 3
"""More orders of one input's channels are not tried, where its first layers contradict each other."""


@dataclass(frozen=True, slots=True)
class InputCandidate:
    """A way in which B may take all of A's inputs.

    Attributes:
        mappings: How each of A's inputs becomes one of B's.
        orientation: What is done to the images, a key of ``ORIENTATIONS``; of all layers.
        support: How many layers speak for this orientation.
        has_evidence: Whether the weights say anything of the inputs.
        is_conclusive: Whether all weights say the same, so that nothing else need be tried.
    """

    mappings: tuple[InputMapping, ...] = ()
    orientation: str = ""
    support: int = 0
    has_evidence: bool = False
    is_conclusive: bool = False

    @property
    def preference(self) -> tuple[int, int]:
        """Sort key for candidates that leave equally much unexplained; the least is best."""
        return -self.support, sum(mapping.num_changes for mapping in self.mappings)


def input_candidates(
    a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: Sequence[tuple[ir.Node, ir.Node]]
) -> list[InputCandidate]:
    """Return the ways in which B may take A's inputs, the likeliest first.

    Args:
        a: Signals of the first net.
        b: Signals of the second net.
        pairs: Which input belongs to which.
        weights: Pairs of nodes with the same weights, in A's order.
    """
    evidence = Evidence.of(a, b, pairs, weights)
    supported = evidence.orientations()
    # without evidence, what ports to MXNet and MATLAB's column order do: nothing, or height and width swapped
    orientations = [*supported, *({""} - set(supported))] if supported else ["", SWAPPED]
    has_evidence = bool(supported or evidence.firsts)
    candidates: list[InputCandidate] = []
    for orientation in orientations:
        is_conclusive = has_evidence and _is_conclusive(evidence, orientation, a, b, pairs)
        ways = [list(_ways(a, b, pair, evidence, orientation)) for pair in pairs]
        for index in range(max(map(len, ways), default=1)):
            candidate = InputCandidate(
                tuple(mappings[min(index, len(mappings) - 1)] for mappings in ways),
                orientation,
                evidence.support(orientation),
                has_evidence,
                is_conclusive and index == 0,
            )
            if all(candidate.mappings != other.mappings for other in candidates):
                candidates.append(candidate)
    return candidates[:MAX_CANDIDATES]


def _is_conclusive(
    evidence: Evidence, orientation: str, a: Signals, b: Signals, pairs: Sequence[tuple[str, str]]
) -> bool:
    """Return whether no weights contradict an orientation and channel order, and enough support it."""
    votes = evidence.first_votes | evidence.later_votes
    if votes.keys() - {orientation} or (orientation and not evidence.later_votes[orientation]):
        return False
    for pair in pairs:
        layers = evidence.firsts.get(pair, [])
        if not layers and len(input_shape(a, pair[0])) == 4:
            return False
        if layers and (_contradict(layers) or (not orientation and _is_only_turned(a, b, pair, layers))):
            return False
    return True


def _contradict(layers: Sequence[FirstLayer]) -> bool:
    sources: dict[int, int] = {}
    return any(
        sources.setdefault(channel, source) != source
        for layer in layers
        for channel, source in layer.sources().items()
    )


def _ways(
    a: Signals, b: Signals, pair: tuple[str, str], evidence: Evidence, orientation: str
) -> Iterator[InputMapping]:
    """Yield the mappings to try for one input under an orientation."""
    layers = evidence.firsts.get(pair)
    if not layers:
        plain = plain_mapping(a, b, pair)
        if len(input_shape(b, pair[1])) != len(input_shape(a, pair[0])):
            yield plain
            return
        plain = reoriented(plain, orientation, a)
        yield plain
        yield with_channels_reversed(plain, a)
        return
    first = min(layers, key=_unlikeness)
    mapping = _mapping(pair, first, orientation)
    scale = _common_scale(first)
    for order in _channel_orders(layers, _num_channels(a, pair[0], first)):
        ordered = replace(mapping, channels=unless_plain(order))
        if scale != 1.0:
            yield replace(ordered, scale=scale)
        yield ordered
    if not orientation and _is_only_turned(a, b, pair, layers):
        yield InputMapping(*pair)


def _is_only_turned(a: Signals, b: Signals, pair: tuple[str, str], layers: Sequence[FirstLayer]) -> bool:
    """Return whether the first layers read other axes of inputs whose sizes are the same as they stand.

    A net may transpose a sequence before its first dense layer, another one behind it.
    """
    mapping = _mapping(pair, min(layers, key=_unlikeness), "")
    return mapping.axes is not None and input_shape(a, pair[0]) == input_shape(b, pair[1])


def _unlikeness(layer: FirstLayer) -> float:
    return layer.match.num_different / max(layer.match.num_elements, 1)


def _mapping(pair: tuple[str, str], layer: FirstLayer, orientation: str) -> InputMapping:
    """Return the axes that an orientation needs where two layers see their inputs so, and those it flips."""
    axes_a, axes_b = list(layer.views[0].all_axes), layer.views[1].all_axes
    channel_axis = axes_a[layer.channel_place]
    flips: tuple[int, ...] = ()
    if len(layer.views[0].axes) == 4 and layer.channel_place == 1:
        wanted = ORIENTATIONS[orientation]
        if wanted.swap:
            axes_a[2], axes_a[3] = axes_a[3], axes_a[2]
        flips = tuple(
            axis for axis, flip in zip(axes_b[2:4], ORIENTATIONS[orientation].flips, strict=True) if flip
        )
    axes = unless_plain([axes_a[i] for i in np.argsort(axes_b)])
    return InputMapping(*pair, axes=axes, channel_axis=channel_axis, flips=tuple(sorted(flips)))


def _num_channels(a: Signals, name: str, layer: FirstLayer) -> int:
    """Return how many channels an input has; those that are read, where it does not say."""
    shape = input_shape(a, name)
    axis = layer.views[0].axes[layer.channel_place]
    return shape[axis] or 1 + max(layer.channels[0])


def _channel_orders(layers: Sequence[FirstLayer], count: int) -> list[tuple[int, ...] | None]:
    """Return the orders of the channels that the first layers imply, those of the least damaged first.

    Where they contradict each other, each of them is believed once.
    """
    orders: list[tuple[int, ...] | None] = []
    trusted = sorted(layers, key=_unlikeness)
    for believed in trusted[:MAX_ORDERS] if _contradict(layers) else trusted[:1]:
        order = _merged([believed, *trusted], count)
        if order not in orders:
            orders.append(order)
    return orders


def _merged(layers: Sequence[FirstLayer], count: int) -> tuple[int, ...] | None:
    """Return the order of all channels, the first layers first; channels that none reads stay if they can."""
    sources: dict[int, int] = {}
    for layer in layers:
        for channel, source in layer.sources().items():
            if channel not in sources and source not in sources.values():
                sources[channel] = source
    free = [source for source in range(count) if source not in sources.values()]
    for channel in range(count):
        if channel not in sources and channel in free:
            sources[channel] = channel
            free.remove(channel)
    order = tuple(sources[i] if i in sources else free.pop(0) for i in range(count) if i in sources or free)
    return order if sorted(order) == list(range(count)) else None


def _common_scale(layer: FirstLayer) -> float:
    """Return the factor on the input that a factor on most of the first filters stands for."""
    factors = layer.match.factors
    if factors is None:
        return 1.0
    factor = float(np.median(factors))
    alike = np.abs(factors - factor) <= FACTOR_TOLERANCE * abs(factor)
    return 1.0 / factor if factor and alike.mean() > 0.5 else 1.0
