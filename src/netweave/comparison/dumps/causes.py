"""The cause of the first wrong tensor: the change of a net that makes its values those of a dump."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.comparison.dumps.tensors import TensorIndex, TensorPair
from netweave.comparison.dumps.variant import NORMS, Arrays, Bypass, Change, Variant, stored_array
from netweave.comparison.dumps.variants import variants_of
from netweave.comparison.explain.known_mismatches.mismatch import together
from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.metric import Signals, constants_of, relative_error
from netweave.comparison.subgraphs import SubgraphBuilder
from netweave.errors import NetweaveError
from netweave.runtime.backends import prepare

MAX_SUSPECTS = 48
"""Nodes behind the last tensor that agrees in which the mistake is looked for."""

AT_ONCE = 12
"""Nodes that are suspected at once: the mistake is mostly in one of the first."""

MAX_NORMS = 16
"""Norms behind them that may read the output of an earlier layer than A's."""

HORIZON = 24
"""Nodes behind a suspected one whose values are held against the dump."""

FIRST = 18
"""Signals of these that are computed first; the others only if the dump holds one of them."""

MIN_STEPS = 4
"""Fewest steps of a tensor that are read one by one in a loop that was unrolled."""

ARITHMETIC = frozenset({"Add", "Sub", "Mul", "Div", "Neg", "Exp", "MatMul", "Gather"})
"""Operators of such a loop, where they read no weights of their own."""

RESIZING = frozenset({"padding", "dilation", "pool-rounding", "operator"})
"""Mismatches under which tensors may have other sizes; under others only sizes that the dump has count."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A change of A that makes its values those of B.

    Attributes:
        variant: The change, of the first node that is changed.
        num_nodes: Nodes that are changed in the same way.
        pairs: A's changed tensors and those of B that they now are, in A's order.
        outputs_agree: Whether the outputs of A, so changed, are in the dump as well.
    """

    variant: Variant
    num_nodes: int
    pairs: tuple[TensorPair, ...]
    outputs_agree: bool = False

    @property
    def error(self) -> float:
        """The error of the first tensor that is left."""
        return self.pairs[0].error or 0.0


class CauseFinder:
    """Looks for the cause of a difference.

    Args:
        signals: The net, in the form in which its blocks are nodes.
        values: What it computes on the inputs of the dump, by signal.
        right: Signals that B computes as well.
        index: The tensors of B that hold nothing that A computes.
        others: The other tensors of B.
    """

    def __init__(
        self, signals: Signals, values: Arrays, right: set[str], index: TensorIndex, others: TensorIndex
    ) -> None:
        self._signals = signals
        self._values = values
        self._index = index
        self._others = others
        self._right = [name for name in values if name in right]
        self._steps = self._nodes_of_steps()
        self._wrong = [node for node in signals.nodes if not right.issuperset(signals.outputs_of(node))]

    def find(self) -> Cause | None:
        """Return the change that explains the most tensors of B; None if no known mismatch does any."""
        cause, end = None, 0
        places = [place for place, node in enumerate(self._wrong) if id(node) not in self._steps]
        places.append(len(self._wrong))
        for start in range(0, min(len(places) - 1, MAX_SUSPECTS), AT_ONCE):
            end, behind = (places[min(start + AT_ONCE + more, len(places) - 1)] for more in (0, HORIZON))
            suspects = [self._wrong[place] for place in places[start : start + AT_ONCE] if place < end]
            found = self._of_nodes(suspects, self._wrong[:behind])
            if found:
                best = [cause for cause in found if len(cause.pairs) == len(found[0].pairs)]
                cause = self._confirmed(best)
                break
        if cause is None or not cause.outputs_agree:
            cause = self._without_layers(self._wrong[end:]) or cause
        return self._from_first(cause) if cause is not None else None

    def _nodes_of_steps(self) -> set[int]:
        """Return the arithmetic of loops over steps that were unrolled, as in state spaces, by ``id``.

        There are hundreds of such nodes, and a mistake is hardly ever in one of them.
        """
        chosen: dict[str, list[ir.Node]] = defaultdict(list)
        for node in self._signals.nodes:
            place = stored_array(node, 1) if node.op_type == "Gather" else None
            if place is not None and place.ndim == 0:
                chosen[self._signals.inputs_of(node)[0]].append(node)
        found = {id(node) for nodes in chosen.values() if len(nodes) >= MIN_STEPS for node in nodes}
        for node in self._signals.nodes if found else ():
            makers = [self._signals.producer.get(name) for name in self._signals.inputs_of(node)]
            is_plain = node.op_type in ARITHMETIC and (node.op_type == "Gather" or not constants_of(node))
            if is_plain and any(id(maker) in found for maker in makers):
                found.add(id(node))
        return found

    def _without_layers(self, nodes: Sequence[ir.Node]) -> Cause | None:
        """Return the layers that B leaves out: the next norm is right but for its input, as are outputs."""
        norms = [place for place, node in enumerate(nodes) if node.op_type in NORMS]
        for place in norms[:MAX_NORMS]:
            for cause in self._of_nodes([nodes[place]], nodes[place : place + HORIZON])[:1]:
                if (
                    cause.variant.mismatch == "missing-layer"
                    and (confirmed := self._confirmed([cause])).outputs_agree
                ):
                    return confirmed
        return None

    def _of_nodes(self, suspects: Sequence[ir.Node], nodes: Sequence[ir.Node]) -> list[Cause]:
        """Return the causes in some nodes, those that explain the most tensors first."""
        first = {id(node) for node in suspects}
        rows = variants_of(self._signals, nodes, self._values, self._right)
        found = []
        for variants in _together(list(rows)):
            if id(variants[0].node) not in first:
                continue
            changed = nodes
            if all(variant.is_local for variant in variants):
                changed = self._computed_from([variant.node for variant in variants], nodes)
            change = together(*(variant.change for variant in variants))
            pairs = self._tried(changed, change, may_resize=variants[0].mismatch in RESIZING)
            if pairs:
                found.append(Cause(variants[0], len(variants), tuple(pairs)))
        return sorted(found, key=lambda cause: (-len(cause.pairs), cause.num_nodes, cause.error))

    def _computed_from(self, sources: Sequence[ir.Node], nodes: Sequence[ir.Node]) -> list[ir.Node]:
        """Return some nodes with those of others that compute from them."""
        changed = {name for node in sources for name in self._signals.outputs_of(node)}
        kept = []
        for node in nodes:
            if node in sources or not changed.isdisjoint(self._signals.inputs_of(node)):
                kept.append(node)
                changed.update(self._signals.outputs_of(node))
        return kept

    def _confirmed(self, best: Sequence[Cause]) -> Cause:
        """Return the first cause that makes the outputs those of B as well, or else the first."""
        for cause in best:
            changes = {self._change_everywhere(cause.variant), cause.variant.change}
            for change in changes:
                if self._output_pairs(change):
                    return Cause(cause.variant, cause.num_nodes, cause.pairs, outputs_agree=True)
        return best[0]

    def _from_first(self, cause: Cause) -> Cause:
        """Return a cause with the tensor of a layer that does nothing as its first one.

        It returns what it reads, which a tensor before it holds as well, or zeros, which say nothing.
        """
        node = cause.variant.node
        if isinstance(cause.variant.change, Bypass):
            read = self._signals.inputs_of(node)[0]
            held = self._others.find(str(node.outputs[0].name), self._values[read])
            inner = [pair for pair in held if not any(other.b.startswith(f"{pair.b}.") for other in held)]
            return replace(cause, pairs=(*inner[1:][-1:], *cause.pairs))
        if cause.variant.mismatch == "missing-term":
            sizes = {self._values[name].size for name in self._signals.inputs_of(node)}
            arrays = self._index.arrays.items()
            zeros = [name for name, x in arrays if x.size in sizes and not x.any()]
            pairs = [TensorPair(cause.pairs[0].a, name, LayoutChange(), cause.error) for name in zeros[:1]]
            return replace(cause, pairs=(*pairs, *cause.pairs))
        return cause

    def _change_everywhere(self, variant: Variant) -> Change:
        """Return the change of all nodes that are wrong in the same way, in the rest of the net."""
        if not variant.is_shared:
            return variant.change
        rows = variants_of(self._signals, self._wrong, self._values, self._right)
        alike = [row.change for row in rows if (row.mismatch, row.cause) == (variant.mismatch, variant.cause)]
        return together(*alike)

    def _output_pairs(self, change: Change) -> list[TensorPair]:
        outputs = [name for name in self._signals.outputs if name in self._signals.producer]
        pairs = self._tried(self._wrong, change, outputs, may_resize=True)
        return pairs if len(pairs) == len(outputs) else []

    def _tried(
        self,
        nodes: Sequence[ir.Node],
        change: Change,
        outputs: Sequence[str] | None = None,
        *,
        may_resize: bool = False,
    ) -> list[TensorPair]:
        """Return B's tensors that changed nodes compute and unchanged ones do not."""
        names = outputs or [name for node in nodes for name in self._signals.outputs_of(node)]
        names = [name for name in names if name in self._values]
        names.sort(key=lambda name: id(self._signals.producer[name]) in self._steps)
        if not may_resize:
            sizes = {x.size for x in self._index.arrays.values()}
            names = [name for name in names if self._values[name].size in sizes]
        pairs = self._computed(nodes, change, names[:FIRST])
        if pairs and names[FIRST:]:
            pairs += self._computed(nodes, change, names[FIRST:])
        return pairs

    def _computed(self, nodes: Sequence[ir.Node], change: Change, names: Sequence[str]) -> list[TensorPair]:
        """Return B's tensors that some signals of changed nodes are."""
        if not names:
            return []
        try:
            computed = self._run(self._needed(nodes, names), names, change)
        except (NetweaveError, StopIteration, ValueError, IndexError, KeyError):
            return []  # the change does not fit these nodes
        pairs = []
        for name in names:
            x = computed[name]
            before = self._values[name]
            if x.dtype != np.float32 or (x.shape == before.shape and not _differs(before, x, self._index)):
                continue
            pairs += self._index.find(name, x, in_any_order=name not in self._signals.outputs)[:1]
        return pairs

    def _needed(self, nodes: Sequence[ir.Node], names: Sequence[str]) -> list[ir.Node]:
        """Return the nodes of which signals are computed."""
        wanted, kept = set(names), []
        for node in reversed(nodes):
            if not wanted.isdisjoint(self._signals.outputs_of(node)):
                kept.append(node)
                wanted.update(self._signals.inputs_of(node))
        return kept[::-1]

    def _run(self, nodes: Sequence[ir.Node], names: Sequence[str], change: Change) -> dict[str, np.ndarray]:
        builder = SubgraphBuilder(self._signals)
        shapes = {name: self._values[name].shape for name in self._signals.reads_from_outside(nodes)}
        builder.add(nodes, names, shapes, prefix="")
        graph = builder.finish()
        change(graph)
        feeds = {str(value.name): self._values[str(value.name)] for value in graph.inputs}
        return prepare(graph).run(feeds)


def _differs(before: np.ndarray, after: np.ndarray, index: TensorIndex) -> bool:
    return relative_error(before, after) > 2 * index.tolerance


def _together(variants: Sequence[Variant]) -> list[list[Variant]]:
    """Return variants to try: each one alone, and those that are made in several nodes at once."""
    shared: dict[tuple[str, str], list[Variant]] = defaultdict(list)
    for variant in variants:
        if variant.is_shared:
            shared[variant.mismatch, variant.cause].append(variant)
    groups = [group for group in shared.values() if len(group) > 1]
    pairs = [group[:2] for group in groups if len(group) > 2]  # queries and keys of one layer
    return [[variant] for variant in variants] + groups + pairs
