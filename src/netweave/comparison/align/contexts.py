"""Signatures of a node's successors, which tell apart like layers that begin different branches.

The branches of a block often begin alike, and files write them in any order: one branch after the other, or
layer by layer. What tells them apart is where they lead: to filters of another shape, or to another place of
a Concat.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from netweave.comparison.align.weights import filter_shape
from netweave.comparison.metric import family_of, num_signals

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import onnx_ir as ir

    from netweave.comparison.metric import Signals

REACHES = (1, 2, 4, 8, 16, 32)
"""How many layers ahead is looked, one after the other."""

SEEN_THROUGH = frozenset({"affine", "Pad"})
"""Kinds of nodes that frameworks cut and join in their own ways."""

COMMUTATIVE = frozenset({"Add", "Mul", "Max", "Min", "Sum", "Mean"})


class Contexts:
    """Numbers for the nodes of two nets that are equal where equal nodes follow.

    Args:
        a: The first net.
        b: The second net.
    """

    def __init__(self, a: Signals, b: Signals) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._levels_a, self._levels_b = _Levels(a, self._numbers), _Levels(b, self._numbers)

    def pairs(self, nodes_a: Sequence[ir.Node], nodes_b: Sequence[ir.Node]) -> list[tuple[ir.Node, ir.Node]]:
        """Return the pairs of nodes that alone are followed by the same, the shortest look ahead first."""
        left_a, left_b = list(nodes_a), list(nodes_b)
        pairs: list[tuple[ir.Node, ir.Node]] = []
        for reach in REACHES:
            if not left_a or not left_b:
                break
            keyed_a, keyed_b = self._levels_a.keyed(left_a, reach), self._levels_b.keyed(left_b, reach)
            for key, group_a in keyed_a.items():
                group_b = keyed_b.get(key, [])
                if len(group_a) == len(group_b) == 1:
                    pairs.append((group_a[0], group_b[0]))
            taken = {id(node) for pair in pairs for node in pair}
            left_a = [node for node in left_a if id(node) not in taken]
            left_b = [node for node in left_b if id(node) not in taken]
        return pairs


class _Levels:
    """For each reach, a number for what follows each node of one net up to there.

    Args:
        signals: The net.
        numbers: Numbers given so far, of both nets.
    """

    def __init__(self, signals: Signals, numbers: dict[Hashable, int]) -> None:
        self._numbers = numbers
        self._next = {id(node): _following(signals, node) for node in signals.nodes}
        self._levels = [
            {id(node): self._number((family_of(node), filter_shape(node))) for node in signals.nodes}
        ]

    def keyed(self, nodes: Sequence[ir.Node], reach: int) -> dict[int, list[ir.Node]]:
        """Return nodes by the number of what follows them."""
        while len(self._levels) <= reach:
            self._levels.append(self._deeper(self._levels[-1]))
        keyed = defaultdict(list)
        for node in nodes:
            keyed[self._levels[reach][id(node)]].append(node)
        return keyed

    def _deeper(self, level: dict[int, int]) -> dict[int, int]:
        first = self._levels[0]
        return {
            key: self._number((first[key], tuple(sorted((place, level[reader]) for place, reader in after))))
            for key, after in self._next.items()
        }

    def _number(self, key: Hashable) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _following(signals: Signals, node: ir.Node) -> list[tuple[int, int]]:
    """Return the nodes that read what a node makes, each by its ``id``, and at which of its places."""
    readers: list[tuple[int, int]] = []
    for name in signals.outputs_of(node):
        for reader in signals.consumers.get(name, ()):
            if family_of(reader) in SEEN_THROUGH and num_signals(reader) == 1:
                readers += _following(signals, reader)
            elif reader.op_type in COMMUTATIVE:
                readers.append((0, id(reader)))
            else:
                readers += [
                    (i, id(reader)) for i, read in enumerate(signals.inputs_of(reader)) if read == name
                ]
    return readers
