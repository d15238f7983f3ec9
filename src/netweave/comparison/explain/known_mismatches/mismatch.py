"""The type of a mismatch: a known way in which two nets differ, tried as a rewrite of B's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import common_subsequence
from netweave.comparison.metric import Signals, family_of

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import SignalPair
    from netweave.comparison.layout.change import LayoutChange
    from netweave.graph import Graph


@dataclass(frozen=True, slots=True)
class Case:
    """A group of B that does not do what A's does on the same inputs.

    Attributes:
        a: Signals of the first net.
        b: Signals of the second net.
        nodes_a: A's nodes of the group.
        nodes_b: B's nodes of the group.
        orientation: What was done to the image that B sees, a key of ``ORIENTATIONS``.
        feeds: A's inputs of the group in B's layout, by B's signal.
        changes: How A's tensor became that input, by B's signal.
        shapes_a: Sizes of A's tensors of the same inputs, by A's signal.
        known: All pairs of signals of the two nets, by B's signal.
    """

    a: Signals
    b: Signals
    nodes_a: tuple[ir.Node, ...]
    nodes_b: tuple[ir.Node, ...]
    orientation: str = ""
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    changes: dict[str, LayoutChange] = field(default_factory=dict)
    shapes_a: dict[str, tuple[int, ...]] = field(default_factory=dict)
    known: Mapping[str, SignalPair] = field(default_factory=dict)

    def pairs(self) -> list[tuple[ir.Node, ir.Node]]:
        """Return the nodes of the group that are of one kind, in order."""
        keys_a = [family_of(node) for node in self.nodes_a]
        keys_b = [family_of(node) for node in self.nodes_b]
        return [(self.nodes_a[i], self.nodes_b[j]) for i, j in common_subsequence(keys_a, keys_b)]


@dataclass(frozen=True, slots=True)
class Proposal:
    """One difference, and the change of B's nodes that would remove it.

    Attributes:
        mismatch: Key of the mismatch.
        cause: What differs, in words; what is said of A comes first.
        fix: What to change in B, in words.
        node_a: A's node.
        node_b: B's node.
        change: Makes the change in a copy of B's nodes, found by their names.
        subject: What of the node is changed; of proposals with the same node, mismatch and subject one holds.
        array: Position among both nodes' inputs of the stored array that is given A's values, if it is one.
        functions: As in ``Finding``.
    """

    mismatch: str
    cause: str
    fix: str
    node_a: ir.Node
    node_b: ir.Node
    change: Callable[[Graph], None]
    subject: str = ""
    array: int | None = None
    functions: tuple[str, str] = ("", "")


KnownMismatch = Callable[[Case], Iterator[Proposal]]
"""A mismatch looks at a case and proposes what may be wrong; whether it is, the explanation finds out."""


def node_named(graph: Graph, name: str | None) -> ir.Node:
    """Return a node of a subgraph by the name that it has in its net."""
    return next(node for node in graph.nodes if node.name == name)


def together(*changes: Callable[[Graph], None]) -> Callable[[Graph], None]:
    """Return several changes as one."""

    def change(graph: Graph) -> None:
        for one in changes:
            one(graph)

    return change
