"""The alignment of two nets: pairs of signals and pairs of nodes, each with its evidence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from netweave.comparison.align.layout import solve_layout
from netweave.comparison.align.sketches import SketchIndex
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import Evidence, TensorMapping
from netweave.comparison.signals import family_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.signals import Signals


@dataclass(frozen=True, slots=True)
class SignalPair:
    """A signal of A and its counterpart in B; ``mapping`` and ``error`` are known if values prove it."""

    a: str
    b: str
    evidence: Evidence
    mapping: TensorMapping | None = None
    error: float | None = None


@dataclass(slots=True)
class Alignment:
    """Pairs found so far; a signal or node is in one pair at most, the first one found.

    Attributes:
        a: Signals of the first net.
        b: Signals of the second net.
        of_a: Pair of a signal of A.
        of_b: Pair of a signal of B.
        node_of_a: B's node and the evidence, by ``id`` of A's node.
        node_of_b: A's node, by ``id`` of B's node.
        layouts: How often each permutation of axes was found, most trusted first when asked for.
        turn: What was done to the image that B sees, a key of ``TURNS``.
    """

    a: Signals
    b: Signals
    of_a: dict[str, SignalPair] = field(default_factory=dict)
    of_b: dict[str, SignalPair] = field(default_factory=dict)
    node_of_a: dict[int, tuple[ir.Node, Evidence]] = field(default_factory=dict)
    node_of_b: dict[int, ir.Node] = field(default_factory=dict)
    layouts: Counter[tuple[int, ...]] = field(default_factory=Counter)
    turn: str = ""

    def pair_signals(self, pair: SignalPair) -> bool:
        """Take a pair in, unless one of its signals is taken; say whether it was."""
        if pair.a in self.of_a or pair.b in self.of_b:
            return False
        self.of_a[pair.a] = pair
        self.of_b[pair.b] = pair
        if pair.mapping is not None and pair.mapping.axes is not None:
            self.layouts[pair.mapping.axes] += 1
        elif pair.mapping is not None and pair.mapping.shape is None:
            self.layouts[()] += 1
        return True

    def pair_nodes(self, a: ir.Node, b: ir.Node, evidence: Evidence) -> bool:
        """Take a pair in, unless one of its nodes is taken; say whether it was."""
        if id(a) in self.node_of_a or id(b) in self.node_of_b:
            return False
        self.node_of_a[id(a)] = (b, evidence)
        self.node_of_b[id(b)] = a
        return True

    def partner(self, node: ir.Node) -> ir.Node | None:
        """Return B's node for a node of A."""
        found = self.node_of_a.get(id(node))
        return found[0] if found else None

    def hints(self) -> tuple[tuple[int, ...], ...]:
        """Return the permutations of axes found so far, the most frequent first."""
        return tuple(axes for axes, _ in self.layouts.most_common() if axes)


def match_values(
    alignment: Alignment, tensors_a: Mapping[str, np.ndarray], tensors_b: Mapping[str, np.ndarray]
) -> None:
    """Pair all signals that hold the same values, in B's order, and the nodes that make them.

    Sketches propose, a comparison of all elements decides. Where several signals of A hold the same values,
    one made by the same kind of node and not yet taken goes first.
    """
    a, b = alignment.a, alignment.b
    index = SketchIndex.of({name: tensors_a[name] for name in a.names})
    for name_b in b.names:
        if name_b in alignment.of_b or name_b not in tensors_b:
            continue
        candidates = [name for name in index.like(tensors_b[name_b]) if name not in alignment.of_a]
        candidates.sort(key=lambda name: _unlike(alignment, name, name_b))
        for name_a in candidates[:8]:
            solved = solve_layout(
                tensors_a[name_a],
                tensors_b[name_b],
                tolerance=LOCAL_TOLERANCE,
                hints=alignment.hints(),
                turn=alignment.turn,
            )
            if solved is not None:
                pair = SignalPair(name_a, name_b, Evidence.VALUES, solved[0], solved[1])
                alignment.pair_signals(pair)
                _pair_producers(alignment, pair)
                break


def _unlike(alignment: Alignment, name_a: str, name_b: str) -> tuple[bool, bool, int]:
    made_a, made_b = alignment.a.producer.get(name_a), alignment.b.producer.get(name_b)
    if made_a is None or made_b is None:
        return True, True, 0
    sources = [alignment.of_b[s].a for s in alignment.b.inputs_of(made_b) if s in alignment.of_b]
    follows = any(s in alignment.a.inputs_of(made_a) for s in sources)
    return family_of(made_a) != family_of(made_b), not follows, alignment.a.position[id(made_a)]


def _pair_producers(alignment: Alignment, pair: SignalPair) -> None:
    made_a, made_b = alignment.a.producer.get(pair.a), alignment.b.producer.get(pair.b)
    if made_a is not None and made_b is not None and family_of(made_a) == family_of(made_b):
        alignment.pair_nodes(made_a, made_b, Evidence.VALUES)
