"""The first layer at which two nets diverge on one input, without holding all their tensors.

``compare`` looks at every signal of both nets. Here the nets are aligned by weights and structure alone,
and a binary search runs them with one tensor tapped at a time: about log2 of the number of layers runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from netweave.comparison.align.alignment import Alignment, SignalPair
from netweave.comparison.align.chains import find_segments
from netweave.comparison.align.structure import Extension
from netweave.comparison.align.weights import match_weights
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_candidates import InputCandidate, input_candidates
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.inputs import InputMapping, pair_inputs
from netweave.comparison.execution.sizes import Sizes, declared_sizes, sizes_text
from netweave.comparison.explain.findings import where
from netweave.comparison.layout.tensors import solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, HeldValues, comparable
from netweave.comparison.prepare import Side
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.size_search import check_probe
from netweave.errors import UsageError
from netweave.graph import Graph, known_shape

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Divergence:
    """The place where two nets diverge on one input.

    Attributes:
        layer_a: A's layer whose output differs though its inputs agree; empty if nothing differs.
        layer_b: B's layer in its place.
        place_a: Where A's layer stands, as text.
        place_b: Where B's layer stands, as text.
        num_runs: How often both nets were run.
        num_pairs: Pairs of signals that the search chose from.
    """

    layer_a: str = ""
    layer_b: str = ""
    place_a: str = ""
    place_b: str = ""
    num_runs: int = 0
    num_pairs: int = 0

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        effort = f"{self.num_runs} runs, {self.num_pairs} pairs of tensors"
        if not self.layer_a:
            return f"no paired tensor differs on this input ({effort})"
        place = " / ".join(filter(None, (self.place_a, self.place_b)))
        names = " / ".join(dict.fromkeys((self.layer_a, self.layer_b)))
        return f"the nets diverge at {names} ({place}): its inputs agree, its outputs do not ({effort})"


def bisect(
    a: Graph,
    b: Graph,
    *,
    probe: Mapping[str, np.ndarray] | None = None,
    tolerance: float = LOCAL_TOLERANCE,
    progress: Progress | None = None,
) -> Divergence:
    """Find the first layer at which two nets diverge on one input, by binary search.

    Args:
        a: The first net.
        b: The second net.
        probe: Inputs of A by name; drawn if there are none.
        tolerance: Largest relative error of a tensor treated as equal.
        progress: Called with what is being run.

    Raises:
        UsageError: A net came without weights, the inputs cannot be paired, or the nets do not take the
            probe.
        RunError: A net cannot be run.
    """
    bare = [graph.name for graph in (a, b) if not graph.loaded]
    if bare:
        raise UsageError(
            f"{' and '.join(bare)}: has no weights, so its tensors cannot be compared; add its weights, or "
            "compare only the structure (netweave compare)"
        )
    search = _Search.prepare(a, b, probe, tolerance, progress or (lambda text: None))
    return search.run()


@dataclass(slots=True)
class _Search:
    alignment: Alignment
    probe_a: memory_budget.Probe
    probe_b: memory_budget.Probe
    tolerance: float
    progress: Progress
    _known: dict[str, bool] = field(default_factory=dict)

    @classmethod
    def prepare(
        cls,
        a: Graph,
        b: Graph,
        probe: Mapping[str, np.ndarray] | None,
        tolerance: float,
        progress: Progress,
    ) -> _Search:
        side_a, side_b = Side.of("A", a, comparable), Side.of("B", b, comparable)
        candidate = _likeliest(side_a, side_b)
        given = _probe(side_a, side_b, candidate.mappings, probe)
        sizes_a = {mapping.a: given.inputs[mapping.a].shape for mapping in candidate.mappings}
        sizes_b = {mapping.b: mapping.sizes_of_b(sizes_a[mapping.a]) for mapping in candidate.mappings}
        alignment = Alignment(
            _resized(side_a, sizes_a), _resized(side_b, sizes_b), orientation=candidate.orientation
        )
        inputs = [mapping.tensor_mapping(sizes_a[mapping.a]) for mapping in candidate.mappings]
        for tensor in inputs:
            alignment.pair_signals(SignalPair(tensor.a, tensor.b, Evidence.VALUES, tensor, 0.0))
        extension = Extension(alignment)
        for node_a, node_b in match_weights(alignment.a.signals.nodes, alignment.b.signals.nodes):
            extension.seed(node_a, node_b, Evidence.WEIGHTS)
        extension.run()
        inputs_b = {tensor.b: tensor.apply(given.inputs[tensor.a]) for tensor in inputs}
        return cls(alignment, given, memory_budget.given(inputs_b), tolerance, progress)

    def run(self) -> Divergence:
        """Search by halves, then walk back to a pair whose inputs agree."""
        a, b = self.alignment.a.signals, self.alignment.b.signals
        chosen = self._pairs()
        low, high = 0, len(chosen)
        while low < high:
            middle = (low + high) // 2
            if self._agrees(chosen[middle]):
                low = middle + 1
            else:
                high = middle
        if low == len(chosen):
            return Divergence(num_runs=len(self._known), num_pairs=len(chosen))
        first = self._first_before(chosen[low])
        layer_a, place_a = where(a, a.producer[first.a])
        layer_b, place_b = where(b, b.producer[first.b])
        return Divergence(layer_a, layer_b, place_a, place_b, len(self._known), len(chosen))

    def _pairs(self) -> list[SignalPair]:
        """Return the pairs that should agree, in A's order: of chains split differently only the ends."""
        a, b = self.alignment.a.signals, self.alignment.b.signals
        pairs = {name: pair for name, pair in self.alignment.a.pairs.items() if name in a.producer}
        for nodes_a, nodes_b in find_segments(self.alignment):
            if not nodes_a or not nodes_b or len(nodes_a) == len(nodes_b) == 1:
                continue
            for node in nodes_a:
                pairs.pop(a.outputs_of(node)[0], None)
            ends = a.outputs_of(nodes_a[-1])[0], b.outputs_of(nodes_b[-1])[0]
            pairs[ends[0]] = SignalPair(*ends, Evidence.STRUCTURE)
        return [pairs[name] for name in a.names if name in pairs]

    def _first_before(self, pair: SignalPair) -> SignalPair:
        """Follow inputs that differ back to where they begin to: the halves may have missed a branch."""
        a = self.alignment.a
        while True:
            read = a.signals.inputs_of(a.signals.producer[pair.a])
            known = [a.pairs[name] for name in read if name in a.pairs]
            earlier = [p for p in known if p.a in a.signals.producer and not self._agrees(p)]
            if not earlier:
                return pair
            pair = earlier[0]

    def _agrees(self, pair: SignalPair) -> bool:
        if pair.a not in self._known:
            self.progress(f"running both nets up to {pair.a}")
            x = memory_budget.run_tapped(self.alignment.a.graph, self.probe_a, [pair.a])[pair.a]
            y = memory_budget.run_tapped(self.alignment.b.graph, self.probe_b, [pair.b])[pair.b]
            solved = solve_layout(x, y, tolerance=self.tolerance, orientation=self.alignment.orientation)
            self._known[pair.a] = solved is not None
        return self._known[pair.a]


def _likeliest(a: Side, b: Side) -> InputCandidate:
    inputs = pair_inputs(a.signals, b.signals)
    if inputs is None:
        raise UsageError("the two nets have different numbers of inputs")
    seeds = match_weights(a.signals.nodes, b.signals.nodes)
    return input_candidates(a.signals, b.signals, inputs, seeds)[0]


def _probe(
    a: Side, b: Side, mappings: Sequence[InputMapping], probe: Mapping[str, np.ndarray] | None
) -> memory_budget.Probe:
    if probe is None:
        sizes = declared_sizes(a.graph, b.graph, mappings)
        return memory_budget.draw(a.graph, sizes, seed=0, domains=pair_domains(a.graph, b.graph, mappings))
    check_probe(probe, [mapping.a for mapping in mappings])
    return memory_budget.given(probe)


def _resized(side: Side, sizes: Sizes) -> Side:
    """Return a net at other sizes, with stand-ins of the right sizes for tensors, which take no memory."""
    graph = memory_budget.resized(side.graph, sizes)
    if graph is None:
        raise UsageError(f"net {side.source.name!r} cannot be run on inputs of the size {sizes_text(sizes)}")
    standins = {}
    for name, value in graph.values().items():
        shape = known_shape(value)
        if shape is not None and None not in shape[1:]:
            standins[name] = np.broadcast_to(np.float32(0), tuple(size or 1 for size in shape))
    return side.with_graph(graph).with_tensors(HeldValues(standins))
