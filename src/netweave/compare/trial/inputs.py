"""How the inputs of one net become those of the other, as the weights tell.

The filters of the first layer remember what a port did to its input: filters with height and width swapped
see an image with height and width swapped, filters with their input channels reversed see BGR for RGB.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.compare.align.layout import candidate_layouts, describe_axes
from netweave.compare.align.weights import Relation, filter_shape, filters_of, relate
from netweave.compare.result.comparison import TensorMapping
from netweave.graph import known_shape

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.compare.signals import Signals

SWAPPED = "height and width swapped"
MAX_RELATIONS = 12
"""Pairs of filters that are asked for the turn of the image; the first ones, which are the smallest."""

PASSED = frozenset({"Add", "Sub", "Mul", "Div", "Pad", "BatchNormalization", "Cast"})
"""Operators between an input and the first filters that leave axes and channels where they are."""


@dataclass(frozen=True, slots=True)
class InputRule:
    """How one input of A becomes one of B, whatever its size.

    Attributes:
        a: Name of A's input.
        b: Name of B's input.
        axes: As in ``TensorMapping``.
        channels: Order of the channels; None if they stay.
        scale: Factor on the values.
    """

    a: str
    b: str
    axes: tuple[int, ...] | None = None
    channels: tuple[int, ...] | None = None
    scale: float = 1.0

    @classmethod
    def from_mapping(cls, mapping: TensorMapping) -> InputRule:
        """Return the rule that a mapping was made from."""
        return cls(mapping.a, mapping.b, mapping.axes, mapping.channel_order, mapping.scale)

    def mapping(self) -> TensorMapping:
        """Return the rule as a mapping of tensors, with its words."""
        orders: tuple[tuple[int, tuple[int, ...]], ...] = ()
        if self.channels is not None:
            orders = ((self.axes.index(1) if self.axes else 1, self.channels),)
        found = TensorMapping(self.a, self.b, axes=self.axes, orders=orders, scale=self.scale)
        return replace(found, text=describe_axes(found))

    def sizes_of_b(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return the sizes of B's input for those of A's."""
        return tuple(sizes[i] for i in self.axes) if self.axes else tuple(sizes)

    def sizes_of_a(self, sizes: Sequence[int | None]) -> tuple[int | None, ...]:
        """Return the sizes of A's input for those of B's."""
        return tuple(sizes[i] for i in np.argsort(self.axes)) if self.axes else tuple(sizes)


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


def input_rules(
    a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: Sequence[tuple[ir.Node, ir.Node]]
) -> list[list[InputRule]]:
    """Return candidates for the rules of all inputs, the one that the weights tell first.

    Args:
        a: Signals of the first net.
        b: Signals of the second net.
        pairs: Which input belongs to which.
        weights: Pairs of nodes with the same weights, in A's order.
    """
    turn = common_turn(weights)
    found: list[list[InputRule]] = []
    told = [_told_by_weights(a, b, pair, weights, turn) for pair in pairs]
    plain = [_plain(a, b, pair) for pair in pairs]
    found.append([rule or plain[i] for i, rule in enumerate(told)])
    found.append([replace(rule, scale=1.0) for rule in found[0]])
    found.append(plain)
    found.append([_swapped(rule, a) for rule in plain])
    found.append([_reversed(rule, a) for rule in plain])
    found.append([_swapped(_reversed(rule, a), a) for rule in plain])
    unique: list[list[InputRule]] = []
    for rules in found:
        if rules not in unique:
            unique.append(rules)
    return unique


def common_turn(weights: Sequence[tuple[ir.Node, ir.Node]]) -> str:
    """Return what most filters say was done to the image."""
    votes: Counter[str] = Counter()
    for node_a, node_b in weights:
        shape = filter_shape(node_a)
        if shape is None or len(shape) < 4 or max(shape[2:]) == 1 or votes.total() >= MAX_RELATIONS:
            continue
        found = _relation(node_a, node_b)
        if found is not None:
            votes[found.turn] += 1
    best = votes.most_common(1)
    return best[0][0] if best else ""


def _relation(node_a: ir.Node, node_b: ir.Node) -> Relation | None:
    filters_a, filters_b = filters_of(node_a), filters_of(node_b)
    if filters_a is None or filters_b is None:
        return None
    return relate(filters_a, filters_b)


def _told_by_weights(
    a: Signals,
    b: Signals,
    pair: tuple[str, str],
    weights: Sequence[tuple[ir.Node, ir.Node]],
    turn: str,
) -> InputRule | None:
    for node_a, node_b in weights:
        axes_a, axes_b = _path_axes(a, node_a, pair[0]), _path_axes(b, node_b, pair[1])
        if axes_a is None or axes_b is None or len(axes_a) != len(axes_b):
            continue
        found = _relation(node_a, node_b)
        if found is None:
            continue
        canonical = list(axes_a)
        if turn == SWAPPED and len(canonical) == 4:
            canonical[2], canonical[3] = canonical[3], canonical[2]
        axes = tuple(canonical[i] for i in np.argsort(axes_b))
        plain = axes == tuple(range(len(axes)))
        return InputRule(
            *pair,
            axes=None if plain else axes,
            channels=found.in_order,
            scale=_common_scale(found),
        )
    return None


def _common_scale(found: Relation) -> float:
    """Return the factor on the input that a factor on all first filters stands for."""
    if found.scale is None or np.ptp(found.scale) > 1e-4 * np.abs(found.scale).max():
        return 1.0
    return 1.0 / float(np.median(found.scale))


def _path_axes(signals: Signals, node: ir.Node, name: str) -> tuple[int, ...] | None:
    """Return the axes of input ``name`` in the order that ``node`` sees them; None if it is not its input."""
    value = node.inputs[0]
    axes: tuple[int, ...] | None = None
    while value is not None and value.producer() is not None:
        made = value.producer()
        if made is None or (made.op_type not in PASSED and made.op_type not in {"Transpose", "Identity"}):
            return None
        if made.op_type == "Transpose":
            perm = made.attributes["perm"].as_ints()
            axes = tuple(perm[i] for i in axes) if axes else tuple(perm)
        sources = [v for v in made.inputs if v is not None and str(v.name) in signals.root]
        if len(sources) != 1:
            return None
        value = sources[0]
    if value is None or value.name != name or value.shape is None:
        return None
    return axes or tuple(range(len(value.shape)))


def _plain(a: Signals, b: Signals, pair: tuple[str, str]) -> InputRule:
    """Return the rule that the shapes alone suggest: as it is, or the axes that make the sizes fit."""
    shape_a, shape_b = (_input_shape(signals, name) for signals, name in zip((a, b), pair, strict=True))
    if shape_a[1:] == shape_b[1:]:
        return InputRule(*pair)
    layouts = candidate_layouts((1, *shape_a[1:]), (1, *shape_b[1:]))
    fitting = next((mapping for mapping in layouts if mapping.shape is None), None)
    return InputRule(*pair, axes=fitting.axes if fitting else None)


def _input_shape(signals: Signals, name: str) -> tuple[int, ...]:
    """Return the sizes of an input as declared, 0 for an open one."""
    value = next(v for v in signals.graph.inputs if v.name == name)
    declared = signals.graph.declared.get(name) or known_shape(value) or ()
    return tuple(size or 0 for size in declared)


def _swapped(rule: InputRule, a: Signals) -> InputRule:
    axes = list(rule.axes or range(len(_input_shape(a, rule.a))))
    if len(axes) != 4:
        return rule
    height, width = axes.index(2), axes.index(3)
    axes[height], axes[width] = axes[width], axes[height]
    return replace(rule, axes=None if axes == [0, 1, 2, 3] else tuple(axes))


def _reversed(rule: InputRule, a: Signals) -> InputRule:
    shape = _input_shape(a, rule.a)
    return replace(rule, channels=(2, 1, 0)) if len(shape) == 4 and shape[1] == 3 else rule
