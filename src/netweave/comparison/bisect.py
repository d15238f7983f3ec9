"""The first layer at which two nets part on one input, without holding all their tensors.

``compare`` taps every signal of both nets at once. Here the nets are aligned by weights and structure alone,
and a binary search runs them with one tensor tapped at a time: about log2 of the number of layers runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.align.alignment import Alignment, SignalPair
from netweave.comparison.align.chains import find_segments
from netweave.comparison.align.layout import solve_layout
from netweave.comparison.align.structure import Extension
from netweave.comparison.align.weights import match_weights
from netweave.comparison.explain.causes import where
from netweave.comparison.metric import LOCAL_TOLERANCE
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import Signals, comparable
from netweave.comparison.trial import probes
from netweave.comparison.trial.candidates import Candidate, input_candidates
from netweave.comparison.trial.inputs import InputRule, pair_inputs
from netweave.comparison.trial.trial import declared_sizes
from netweave.errors import UsageError
from netweave.graph import known_shape

if TYPE_CHECKING:
    from netweave.graph import Graph

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Parting:
    """Where two nets part on one input.

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
        return f"the nets part at {names} ({place}): what it reads agrees, what it makes does not ({effort})"


def bisect(
    a: Graph,
    b: Graph,
    *,
    probe: Mapping[str, np.ndarray] | None = None,
    tolerance: float = LOCAL_TOLERANCE,
    progress: Progress | None = None,
) -> Parting:
    """Find the first layer at which two nets part on one input.

    Args:
        a: The first net.
        b: The second net.
        probe: Inputs of A by name; drawn if there are none.
        tolerance: Largest error of a tensor, relative to its rms, that counts as none.
        progress: Told what is being run.

    Raises:
        UsageError: A net came without weights, the inputs cannot be paired, or the nets do not take the
            probe.
        RunError: A net cannot be run.
    """
    bare = [graph.name for graph in (a, b) if not graph.loaded]
    if bare:
        raise UsageError(
            f"{' and '.join(bare)}: came without weights, so that its tensors cannot be compared; name its "
            "weights, or compare the structure (netweave compare)"
        )
    search = _Search.prepare(a, b, probe, tolerance, progress or (lambda text: None))
    return search.run()


@dataclass(slots=True)
class _Search:
    alignment: Alignment
    rules: Sequence[InputRule]
    probe: probes.Probe
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
        a, b = comparable(a), comparable(b)
        candidate = _likeliest(Signals.of(a), Signals.of(b))
        rules = candidate.rules
        drawn = _probe(a, b, rules, probe)
        fitted_a = _fitted(a, {rule.a: drawn.inputs[rule.a].shape for rule in rules})
        fitted_b = _fitted(b, {rule.b: rule.sizes_of_b(drawn.inputs[rule.a].shape) for rule in rules})
        alignment = Alignment(Signals.of(fitted_a), Signals.of(fitted_b), turn=candidate.turn)
        for rule in rules:
            mapping = rule.mapping(drawn.inputs[rule.a].shape)
            alignment.pair_signals(SignalPair(rule.a, rule.b, Evidence.VALUES, mapping, 0.0))
        extension = Extension(alignment, _sizes(fitted_a), _sizes(fitted_b))
        for node_a, node_b in match_weights(alignment.a.nodes, alignment.b.nodes):
            extension.seed(node_a, node_b, Evidence.WEIGHTS)
        extension.run()
        return cls(alignment, rules, drawn, tolerance, progress)

    def run(self) -> Parting:
        """Search by halves, then walk back to a pair whose inputs agree."""
        made = self.alignment.a.producer
        chosen = self._pairs()
        low, high = 0, len(chosen)
        while low < high:
            middle = (low + high) // 2
            if self._agrees(chosen[middle]):
                low = middle + 1
            else:
                high = middle
        if low == len(chosen):
            return Parting(num_runs=len(self._known), num_pairs=len(chosen))
        first = self._first_before(chosen[low])
        layer_a, place_a = where(self.alignment.a, made[first.a])
        layer_b, place_b = where(self.alignment.b, self.alignment.b.producer[first.b])
        return Parting(layer_a, layer_b, place_a, place_b, len(self._known), len(chosen))

    def _pairs(self) -> list[SignalPair]:
        """Return the pairs that should agree, in A's order: of chains cut differently only the ends."""
        a, b = self.alignment.a, self.alignment.b
        found = {name: pair for name, pair in self.alignment.of_a.items() if name in a.producer}
        for nodes_a, nodes_b in find_segments(self.alignment):
            if not nodes_a or not nodes_b or len(nodes_a) == len(nodes_b) == 1:
                continue
            for node in nodes_a:
                found.pop(a.outputs_of(node)[0], None)
            ends = a.outputs_of(nodes_a[-1])[0], b.outputs_of(nodes_b[-1])[0]
            found[ends[0]] = SignalPair(*ends, Evidence.STRUCTURE)
        return [found[name] for name in a.names if name in found]

    def _first_before(self, pair: SignalPair) -> SignalPair:
        """Follow inputs that differ back to where they begin to: the halves may have missed a branch."""
        while True:
            read = self.alignment.a.inputs_of(self.alignment.a.producer[pair.a])
            known = [self.alignment.of_a[name] for name in read if name in self.alignment.of_a]
            earlier = [p for p in known if p.a in self.alignment.a.producer and not self._agrees(p)]
            if not earlier:
                return pair
            pair = earlier[0]

    def _agrees(self, pair: SignalPair) -> bool:
        if pair.a not in self._known:
            self.progress(f"running both nets up to {pair.a}")
            given = self.probe.inputs
            mapped = {r.b: r.mapping(given[r.a].shape).apply(given[r.a]) for r in self.rules}
            x = probes.run_tapped(self.alignment.a.graph, self.probe, [pair.a])[pair.a]
            y = probes.run_tapped(self.alignment.b.graph, probes.Probe(mapped, ""), [pair.b])[pair.b]
            self._known[pair.a] = (
                solve_layout(x, y, tolerance=self.tolerance, turn=self.alignment.turn) is not None
            )
        return self._known[pair.a]


def _likeliest(a: Signals, b: Signals) -> Candidate:
    pairs = pair_inputs(a, b)
    if pairs is None:
        raise UsageError("the two nets do not take the same number of inputs")
    return input_candidates(a, b, pairs, match_weights(a.nodes, b.nodes))[0]


def _probe(
    a: Graph, b: Graph, rules: Sequence[InputRule], probe: Mapping[str, np.ndarray] | None
) -> probes.Probe:
    if probe is None:
        return probes.draw(a, declared_sizes(a, b, rules), seed=0)
    probes.check_finite(probe)
    missing = [rule.a for rule in rules if rule.a not in probe]
    if missing:
        raise UsageError(f"the probe has no {', '.join(map(repr, missing))}, an input of A")
    return probes.given(probe)


def _fitted(graph: Graph, sizes: Mapping[str, tuple[int, ...]]) -> Graph:
    fitted = probes.with_sizes(graph, sizes)
    if fitted is None:
        shown = ", ".join(f"{name} {'x'.join(map(str, size))}" for name, size in sizes.items())
        raise UsageError(f"net {graph.name!r} does not take inputs of the size {shown}")
    return fitted


def _sizes(graph: Graph) -> dict[str, np.ndarray]:
    """Return stand-ins of the right sizes for all values, that take no memory."""
    found = {}
    for name, value in graph.values().items():
        shape = known_shape(value)
        if shape is not None and None not in shape[1:]:
            full = tuple(size or 1 for size in shape)
            found[name] = np.broadcast_to(np.float32(0), full)
    return found
