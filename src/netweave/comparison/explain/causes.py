"""Why a group of B does not do what A's does: every trap is tried on A's real inputs."""

from __future__ import annotations

import itertools
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.backends import prepare
from netweave.comparison.align.layout import solve_layout
from netweave.comparison.explain.traps import TRAPS, Case, Proposal
from netweave.comparison.explain.traps.order import in_order_of_a, reordered, unchanged
from netweave.comparison.explain.unlike import other_filters, other_operators, shape_trap
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error
from netweave.comparison.pieces import PieceBuilder
from netweave.comparison.result.comparison import Finding
from netweave.comparison.signals import constants_of
from netweave.errors import NetweaveError
from netweave.graph.parameters import source_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import onnx_ir as ir

    from netweave.comparison.align.alignment import SignalPair
    from netweave.comparison.align.groups import Draft
    from netweave.comparison.explain.graft import Graft
    from netweave.comparison.signals import Signals
    from netweave.graph import Graph

Unfilled = tuple[AbstractSet[str], AbstractSet[str]]
"""Keys of parameters without values, of A and of B."""

NOTHING_UNFILLED: Unfilled = (frozenset(), frozenset())

MAX_CHANGES = 6
"""More differences in one group than this are not disentangled."""


OF_WEIGHTS = frozenset({"weights", "bn-scale-factor", "fix-gamma"})
"""Traps that give a layer other values and leave its settings as they are."""

OF_WINDOWS = frozenset({"padding", "stride", "dilation"})
"""Traps that go with the window of filters."""


@dataclass(frozen=True, slots=True)
class Explainer:
    """Explains groups of one pair of nets.

    Attributes:
        a: Signals of the first net.
        b: Signals of the second net.
        turn: What was done to the image that B sees, a key of ``TURNS``.
        known: All pairs of signals, by B's signal.
        unfilled: Keys of A's and of B's parameters that have no values of their own and were given none.
    """

    a: Signals
    b: Signals
    turn: str
    known: Mapping[str, SignalPair]
    unfilled: Unfilled = NOTHING_UNFILLED

    def agrees_when_filled(self, draft: Draft, graft: Graft) -> bool:
        """Whether a group does what A's does as soon as its arrays without values hold A's."""
        fills, _ = self._proposals(self._case(draft, graft))
        return bool(fills) and self._error_with(draft, graft, fills) <= LOCAL_TOLERANCE

    def _proposals(self, case: Case) -> tuple[list[Proposal], list[Proposal]]:
        """Return the proposals that fill arrays without values, and the others, which are differences."""
        is_open = any(
            self._is_unfilled(side, node)
            for side, nodes in enumerate((case.nodes_a, case.nodes_b))
            for node in nodes
        )
        fills: list[Proposal] = []
        others: list[Proposal] = []
        for proposal in (proposal for trap in TRAPS for proposal in trap(case)):
            (fills if is_open and self._fills(proposal) else others).append(proposal)
        return fills, others

    def _fills(self, proposal: Proposal) -> bool:
        """Whether a proposal gives an array the values that another one of its layers came without.

        A bias may be anywhere in a chain of filters and scalings, so while some of the chain have no values,
        other values are no difference.
        """
        if proposal.array is None:
            return False
        own = any(
            self._is_unfilled(side, node, proposal.array)
            for side, node in enumerate((proposal.node_a, proposal.node_b))
        )
        return own or proposal.trap == "weights"

    def _is_unfilled(self, side: int, node: ir.Node, index: int | None = None) -> bool:
        """Whether a node has an array, or that at a position, that has no values and was given none."""
        values = [v for i, v in constants_of(node).items() if index in {None, i}]
        return any(not self.unfilled[side].isdisjoint(source_keys(value)) for value in values)

    def explain(self, draft: Draft, graft: Graft) -> Finding:
        """Return what is wrong with a group, as far as a trap explains it."""
        case = self._case(draft, graft)
        before = self._reordered(draft, graft, case) or self._rewired(draft, graft)
        if before is not None:
            return self._finding(draft, graft, [before[1]], before[0])
        fills, proposals = self._proposals(case)
        tried = [(self._error_with(draft, graft, [*fills, proposal]), proposal) for proposal in proposals]
        best = min(tried, key=_unlikeliness, default=None)
        if best is not None and best[0] <= LOCAL_TOLERANCE:
            return self._finding(draft, graft, [best[1]], best[0])
        together = self._together(draft, graft, tried, fills)
        if together is not None:
            return self._finding(draft, graft, *together)
        return self._unexplained(draft, graft, proposals)

    def _case(self, draft: Draft, graft: Graft) -> Case:
        shapes = {source: graft.feeds[name].shape for name, source in graft.sources.items()}
        for name, source in graft.sources.items():
            mapping = graft.layouts[name]
            if mapping.axes is not None or mapping.shape is not None:
                shapes[source] = _shape_before(mapping.axes, graft.feeds[name].shape)
        return Case(
            a=self.a,
            b=self.b,
            nodes_a=tuple(draft.nodes[0]),
            nodes_b=tuple(draft.nodes[1]),
            turn=self.turn,
            feeds=graft.feeds,
            mappings=graft.layouts,
            shapes_a=shapes,
            known=self.known,
        )

    def _reordered(self, draft: Draft, graft: Graft, case: Case) -> tuple[float, Proposal] | None:
        """Return what put the channels that B's group reads in another order, if that alone is wrong."""
        proposal = next((found for node in draft.nodes[1] if (found := reordered(case, node))), None)
        if proposal is None:
            return None
        feeds = {name: in_order_of_a(graft.layouts[name], x) for name, x in graft.feeds.items()}
        error = self._error_with(draft, replace(graft, feeds=feeds), [])
        return (error, proposal) if error <= LOCAL_TOLERANCE else None

    def _rewired(self, draft: Draft, graft: Graft) -> tuple[float, Proposal] | None:
        """Return what B's group reads in the place of what A's reads, if that alone is wrong."""
        if not graft.instead:
            return None
        feeds = {**graft.feeds, **graft.instead}
        error = self._error_with(draft, replace(graft, feeds=feeds), [])
        reads_b = ", ".join(_maker(self.b, name) for name in graft.instead)
        reads_a = ", ".join(_maker(self.a, graft.rewired[name]) for name in graft.instead)
        proposal = Proposal(
            trap="input",
            cause=f"A reads what {reads_a} makes, B what {reads_b} makes",
            fix=f"read what {reads_a} makes",
            node_a=draft.nodes[0][0],
            node_b=draft.nodes[1][0],
            change=unchanged,
        )
        return (error, proposal) if error <= LOCAL_TOLERANCE else None

    def _error_with(self, draft: Draft, graft: Graft, proposals: Sequence[Proposal]) -> float:
        """Return the error of B's group with changes made; infinite if it no longer runs."""
        outputs = [b for _, b in draft.outputs]
        try:
            piece = self._piece(draft, graft, outputs)
            for proposal in proposals:
                proposal.change(piece)
            names = [str(value.name) for value in piece.inputs]
            feeds = {**graft.feeds, **graft.sizes}
            found = prepare(piece).run({name: feeds[name] for name in names})
        except NetweaveError:
            return float("inf")
        return max((_error(graft.wanted[name], found[name]) for name in outputs), default=float("inf"))

    def _piece(self, draft: Draft, graft: Graft, outputs: Sequence[str]) -> Graph:
        builder = PieceBuilder(self.b)
        builder.add(draft.nodes[1], outputs, {n: x.shape for n, x in graft.feeds.items()}, prefix="")
        return builder.finish()

    def _together(
        self,
        draft: Draft,
        graft: Graft,
        tried: Sequence[tuple[float, Proposal]],
        fills: Sequence[Proposal],
    ) -> tuple[list[Proposal], float] | None:
        """Find a smallest set of changes that helps together where none does alone."""
        chosen: dict[tuple[str | None, str, str], Proposal] = {}
        for _, proposal in sorted(tried, key=lambda row: row[0]):
            chosen.setdefault((proposal.node_b.name, proposal.trap, proposal.subject), proposal)
        proposals = list(chosen.values())
        if len(proposals) > MAX_CHANGES:
            return None
        for count in range(2, len(proposals) + 1):
            for some in itertools.combinations(proposals, count):
                error = self._error_with(draft, graft, [*fills, *some])
                if error <= LOCAL_TOLERANCE:
                    return list(some), error
        return None

    def _finding(self, draft: Draft, graft: Graft, proposals: Sequence[Proposal], error: float) -> Finding:
        first = proposals[0]
        layer_a, place_a = where(self.a, first.node_a)
        layer_b, place_b = where(self.b, first.node_b)
        return Finding(
            trap=" + ".join(dict.fromkeys(p.trap for p in proposals)),
            cause="; ".join(dict.fromkeys(p.cause for p in proposals)),
            fix="; ".join(dict.fromkeys(p.fix for p in proposals)),
            place_a=place_a,
            place_b=place_b,
            layer_a=layer_a,
            layer_b=layer_b,
            error=graft.error,
            error_fixed=error,
        )

    def _unexplained(self, draft: Draft, graft: Graft, proposals: Sequence[Proposal]) -> Finding:
        shaped = shaped_finding(self.a, self.b, draft, proposals)
        if shaped is not None:
            return replace(shaped, error=graft.error)
        layer_a, place_a = where(self.a, draft.nodes[0][-1])
        layer_b, place_b = where(self.b, draft.nodes[1][-1])
        seen = "; ".join(dict.fromkeys(p.cause for p in proposals))
        other = other_operators(draft.nodes[0], draft.nodes[1])
        said = other or ("unexplained" if seen else "unexplained: no known trap fits")
        said += f"; what differs besides: {seen}" if seen else ""
        return Finding(
            trap=None,
            cause=said,
            place_a=place_a,
            place_b=place_b,
            layer_a=layer_a,
            layer_b=layer_b,
            error=graft.error,
        )


def _unlikeliness(row: tuple[float, Proposal]) -> tuple[bool, bool, float]:
    """Return what orders proposals that were tried, likelier ones first.

    Where a setting and other weights repair a layer alike, it is the setting: weights can make up for any.
    """
    error, proposal = row
    changes_weights = proposal.array is not None or proposal.trap in OF_WEIGHTS
    return error > LOCAL_TOLERANCE, changes_weights, error


def shaped_finding(a: Signals, b: Signals, draft: Draft, proposals: Sequence[Proposal]) -> Finding | None:
    """Return what is wrong with a group whose filters have other shapes; None if they do not.

    Args:
        a: Signals of A.
        b: Signals of B.
        draft: The group.
        proposals: What differs besides; settings of the window go with its size.
    """
    found = other_filters(draft.nodes[0], draft.nodes[1], format_b=b.graph.format)
    if found is None:
        return None
    cause, fix, node_a, node_b = found
    besides = [p for p in proposals if p.node_b is node_b and p.trap in OF_WINDOWS] if fix else []
    layer_a, place_a = where(a, node_a)
    layer_b, place_b = where(b, node_b)
    return Finding(
        trap=shape_trap(node_a, node_b) if fix else None,
        cause="; ".join([cause, *(p.cause for p in besides)]),
        fix="; ".join([fix, *(p.fix for p in besides)]),
        place_a=place_a,
        place_b=place_b,
        layer_a=layer_a,
        layer_b=layer_b,
    )


def _error(wanted: np.ndarray, found: np.ndarray) -> float:
    """Return the error of what a changed group makes, in whatever layout it now has the sizes for."""
    if wanted.shape == found.shape:
        return relative_error(wanted, found)
    solved = solve_layout(wanted, found, tolerance=LOCAL_TOLERANCE)
    return float("inf") if solved is None else solved[1]


def _maker(signals: Signals, name: str) -> str:
    """Return the name of the layer that makes a signal, or of the input that it is."""
    node = signals.producer.get(name)
    return repr(where(signals, node)[0] if node is not None else name)


def where(signals: Signals, node: ir.Node) -> tuple[str, str]:
    """Return the name of a node's layer and its place in the source, both as text."""
    layers = signals.graph.layers_of(node)
    if not layers:
        return str(node.name), signals.graph.files[0] if signals.graph.files else signals.graph.name
    return layers[0].name, str(layers[0].origin) if layers[0].origin else ""


def _shape_before(axes: tuple[int, ...] | None, shape: tuple[int, ...]) -> tuple[int, ...]:
    if axes is None or len(axes) != len(shape):
        return shape
    before = [0] * len(shape)
    for place, axis in enumerate(axes):
        before[axis] = shape[place]
    return tuple(before)
