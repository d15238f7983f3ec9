"""The ways in which one net may take the other's inputs: what the weights tell, and what else is tried."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.turns import SWAPPED, TURNS
from netweave.comparison.trial.evidence import Evidence
from netweave.comparison.trial.inputs import (
    InputRule,
    input_shape,
    plain_rule,
    turned_rule,
    with_channels_reversed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.comparison.signals import Signals
    from netweave.comparison.trial.evidence import FirstLayer

MAX_CANDIDATES = 8
"""More ways to take the inputs are not tried."""

MAX_ORDERS = 3
"""More orders of one input's channels are not tried, where its first layers contradict each other."""

SAME_SCALE = 1e-4
"""Largest difference of factors that are the same, relative to the factor."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to take all inputs.

    Attributes:
        rules: How each of A's inputs becomes one of B's.
        turn: What is done to the images, a key of ``TURNS``; of all layers.
        support: How many layers tell this turn.
        is_told: Whether the first layers, or those behind them, tell anything of the inputs.
        is_settled: Whether all weights tell the same, so that nothing else need be tried.
    """

    rules: tuple[InputRule, ...] = ()
    turn: str = ""
    support: int = 0
    is_told: bool = False
    is_settled: bool = False

    @property
    def preference(self) -> tuple[int, int]:
        """What decides between two that leave as much unexplained; the lesser is the better."""
        return -self.support, sum(rule.num_changes for rule in self.rules)


def input_rules(
    a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: Sequence[tuple[ir.Node, ir.Node]]
) -> list[list[InputRule]]:
    """Return candidates for the rules of all inputs, the likeliest first; see ``input_candidates``."""
    return [list(candidate.rules) for candidate in input_candidates(a, b, pairs, weights)]


def input_candidates(
    a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: Sequence[tuple[ir.Node, ir.Node]]
) -> list[Candidate]:
    """Return the ways in which B may take A's inputs, the likeliest first.

    Args:
        a: Signals of the first net.
        b: Signals of the second net.
        pairs: Which input belongs to which.
        weights: Pairs of nodes with the same weights, in A's order.
    """
    evidence = Evidence.of(a, b, pairs, weights)
    told = evidence.turns()
    turns = [*told, *({""} - set(told))] if told else ["", SWAPPED]
    is_told = bool(told or evidence.firsts)
    found: list[Candidate] = []
    for turn in turns:
        is_settled = is_told and _is_settled(evidence, turn, a, pairs)
        ways = [list(_ways(a, b, pair, evidence, turn)) for pair in pairs]
        for index in range(max(map(len, ways), default=1)):
            rules = tuple(rows[min(index, len(rows) - 1)] for rows in ways)
            made = Candidate(rules, turn, evidence.support(turn), is_told, is_settled and index == 0)
            if all(made.rules != other.rules for other in found):
                found.append(made)
    return found[:MAX_CANDIDATES]


def _is_settled(evidence: Evidence, turn: str, a: Signals, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether no weights contradict a turn and the orders of channels, and enough of them tell it."""
    if (evidence.first_turns | evidence.later_turns).keys() - {turn} or (
        turn and not evidence.later_turns[turn]
    ):
        return False
    for pair in pairs:
        layers = evidence.firsts.get(pair, [])
        if not layers and len(input_shape(a, pair[0])) == 4:
            return False
        if layers and _contradict(layers):
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
    a: Signals, b: Signals, pair: tuple[str, str], evidence: Evidence, turn: str
) -> Iterator[InputRule]:
    """Yield the rules to try for one input under a turn."""
    layers = evidence.firsts.get(pair)
    if not layers:
        rule = turned_rule(plain_rule(a, b, pair), turn, a)
        yield rule
        yield with_channels_reversed(rule, a)
        return
    first = min(layers, key=_unlikeness)
    rule = _rule(pair, first, turn)
    scale = _common_scale(first)
    for order in _channel_orders(layers, _num_channels(a, pair[0], first)):
        plain = order is None or order == tuple(range(len(order)))
        ordered = replace(rule, channels=None if plain else order)
        if scale != 1.0:
            yield replace(ordered, scale=scale)
        yield ordered


def _unlikeness(layer: FirstLayer) -> float:
    return layer.relation.num_different / max(layer.relation.num_elements, 1)


def _rule(pair: tuple[str, str], layer: FirstLayer, turn: str) -> InputRule:
    """Return the axes that a turn needs where two layers see their inputs so, and the axes that it flips."""
    axes_a, axes_b = list(layer.views[0].all_axes), layer.views[1].all_axes
    channel_axis = axes_a[layer.channel_place]
    flips: tuple[int, ...] = ()
    if len(layer.views[0].axes) == 4 and layer.channel_place == 1:
        if TURNS[turn].swap:
            axes_a[2], axes_a[3] = axes_a[3], axes_a[2]
        flips = tuple(axis for axis, flip in zip(axes_b[2:4], TURNS[turn].flips, strict=True) if flip)
    axes = tuple(axes_a[i] for i in np.argsort(axes_b))
    plain = axes == tuple(range(len(axes)))
    return InputRule(
        *pair, axes=None if plain else axes, channel_axis=channel_axis, flips=tuple(sorted(flips))
    )


def _num_channels(a: Signals, name: str, layer: FirstLayer) -> int:
    """Return how many channels an input has; those that are read, where it does not say."""
    shape = input_shape(a, name)
    axis = layer.views[0].axes[layer.channel_place]
    return shape[axis] or 1 + max(layer.channels[0])


def _channel_orders(layers: Sequence[FirstLayer], count: int) -> list[tuple[int, ...] | None]:
    """Return the orders of the channels that the first layers tell, those of the least damaged first.

    Where they contradict each other, each of them is believed once.
    """
    found: list[tuple[int, ...] | None] = []
    trusted = sorted(layers, key=_unlikeness)
    for believed in trusted[:MAX_ORDERS] if _contradict(layers) else trusted[:1]:
        order = _merged([believed, *trusted], count)
        if order not in found:
            found.append(order)
    return found


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
    scale = layer.relation.scale
    if scale is None:
        return 1.0
    factor = float(np.median(scale))
    alike = np.abs(scale - factor) <= SAME_SCALE * abs(factor)
    return 1.0 / factor if factor and alike.mean() > 0.5 else 1.0
