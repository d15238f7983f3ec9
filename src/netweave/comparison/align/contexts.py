"""What comes after a node: tells apart layers of one kind and size that begin different branches.

The branches of a block often begin alike, and files write them in any order: one branch after the other, or
layer by layer. What tells them apart is where they lead: to filters of another shape, or to another place of
a Concat.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from netweave.comparison.align.weights import filter_shape
from netweave.comparison.signals import family_of, num_signals

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import onnx_ir as ir

    from netweave.comparison.signals import Signals

REACHES = (1, 2, 4, 8, 16, 32)
"""How many layers ahead is looked, one after the other."""

SEEN_THROUGH = frozenset({"affine", "Pad"})
"""Kinds of nodes that frameworks cut and join in their own ways."""

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean"})


class Contexts:
    """What follows each node of two nets, as numbers that are equal where the same follows.

    Args:
        a: The first net.
        b: The second net.
    """

    def __init__(self, a: Signals, b: Signals) -> None:
        self._sides = a, b
        self._numbers: dict[Hashable, int] = {}
        self._levels = [self._first(a)], [self._first(b)]
        self._next = [{id(node): _following(signals, node) for node in signals.nodes} for signals in (a, b)]

    def pairs(self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
        """Return the pairs of nodes that alone are followed by the same, the shortest look ahead first."""
        left_a, left_b = list(nodes_a), list(nodes_b)
        found: list[tuple[ir.Node, ir.Node]] = []
        for reach in REACHES:
            if not left_a or not left_b:
                break
            keyed_a, keyed_b = self._keyed(0, left_a, reach), self._keyed(1, left_b, reach)
            for key, group_a in keyed_a.items():
                group_b = keyed_b.get(key, [])
                if len(group_a) == len(group_b) == 1:
                    found.append((group_a[0], group_b[0]))
            taken = {id(node) for pair in found for node in pair}
            left_a = [node for node in left_a if id(node) not in taken]
            left_b = [node for node in left_b if id(node) not in taken]
        return found

    def _keyed(self, side: int, nodes: Sequence[ir.Node], reach: int) -> dict[int, list[ir.Node]]:
        levels = self._levels[side]
        while len(levels) <= reach:
            levels.append(self._deeper(side, levels[-1]))
        keyed = defaultdict(list)
        for node in nodes:
            keyed[levels[reach][id(node)]].append(node)
        return keyed

    def _first(self, signals: Signals) -> dict[int, int]:
        return {id(node): self._number((family_of(node), filter_shape(node))) for node in signals.nodes}

    def _deeper(self, side: int, level: dict[int, int]) -> dict[int, int]:
        following, first = self._next[side], self._levels[side][0]
        return {
            key: self._number((first[key], tuple(sorted((place, level[reader]) for place, reader in after))))
            for key, after in following.items()
        }

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _following(signals: Signals, node: ir.Node) -> list[tuple[int, int]]:
    """Return the nodes that read what a node makes, each by its ``id``, and at which of its places."""
    found: list[tuple[int, int]] = []
    for name in signals.outputs_of(node):
        for reader in signals.consumers.get(name, ()):
            if family_of(reader) in SEEN_THROUGH and num_signals(reader) == 1:
                found += _following(signals, reader)
            elif reader.op_type in COMMUTATIVE:
                found.append((0, id(reader)))
            else:
                found += [(i, id(reader)) for i, read in enumerate(signals.inputs_of(reader)) if read == name]
    return found
