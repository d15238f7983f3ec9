"""Both nets run on the same inputs, mapped from one to the other."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import Alignment, SignalPair, counterpart, in_order, is_moved
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import Variation
from netweave.comparison.execution.sizes import sizes_to_run
from netweave.comparison.execution.tapped_values import TappedValues
from netweave.comparison.layout.tensors import candidate_layouts, solve_layout
from netweave.comparison.layout.wording import describe_output
from netweave.comparison.metric import OUTPUT_TOLERANCE, HeldValues, relative_error
from netweave.comparison.result.comparison import Evidence, OutputPair, TensorMapping
from netweave.errors import RunError
from netweave.graph.passes.extraction import Extractor

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np

    from netweave.comparison.execution.input_candidates import InputCandidate
    from netweave.comparison.execution.input_domains import Domain
    from netweave.comparison.execution.sizes import Resizer, Sizes
    from netweave.comparison.execution.tapped_values import ValueStore
    from netweave.comparison.metric import SignalValues
    from netweave.comparison.prepare import Side
    from netweave.graph import Graph

OTHER_SEED = 100
"""Draws the inputs of a second run, away from the seeds 0 to 4 that comparisons run on."""


@dataclass(slots=True)
class PairRun:
    """Both nets run on one probe, under one way to map A's inputs to B's.

    Attributes:
        candidate: How A's inputs became B's.
        alignment: Pairs of signals, the inputs to begin with; its sides hold what the nets computed.
        text: The probe in words.
        store: Holds what both nets computed.
        variation: Which of A's signals depend on the input, as far as this run shows.
        is_extended: Whether the alignment has grown by structure already.
    """

    candidate: InputCandidate
    alignment: Alignment
    text: str
    store: ValueStore
    variation: Variation
    is_extended: bool = False

    @property
    def a(self) -> Side:
        """The first net, and what it computed."""
        return self.alignment.a

    @property
    def b(self) -> Side:
        """The second net, and what it computed: nothing but its inputs if it could not be run."""
        return self.alignment.b

    @property
    def inputs(self) -> tuple[TensorMapping, ...]:
        """The mapping from A's inputs to B's, at these sizes and in words."""
        return tuple(
            mapping.tensor_mapping(self.a.tensors[mapping.a].shape) for mapping in self.candidate.mappings
        )

    @property
    def num_equal_signals(self) -> int:
        """Number of signals of B, besides its inputs, that hold the values of one of A's."""
        return len(self.a.pairs) - len(self.candidate.mappings)

    def run_all(self) -> None:
        """Run what is only run when it is looked up, so that what cannot be run is known, and all shapes are.

        Raises:
            RunError: A net cannot be run.
        """
        for side in self.alignment.sides:
            for name in side.signals.names:
                side.tensors.shape_of(name)

    @property
    def has_samples(self) -> bool:
        """True if the probe has several samples, which show by themselves what depends on them."""
        shapes = (self.a.tensors[str(value.name)].shape for value in self.a.graph.inputs)
        return any(shape and shape[0] > 1 for shape in shapes)

    def whole_variation(self) -> Variation:
        """Return which of A's signals depend on the input, shown by a run on other inputs where need be."""
        if self.has_samples:
            return self.variation
        sizes = {str(value.name): self.a.tensors[str(value.name)].shape for value in self.a.graph.inputs}
        probe = memory_budget.draw(self.a.graph, sizes, seed=OTHER_SEED)
        other = TappedValues(self.a.graph, probe, self.a.signals.names, self.store, stage="run A")
        return Variation(self.a.signals, [self.a.tensors, other])

    def outputs(
        self, known: Mapping[str, str] | None = None, *, tolerance: float = OUTPUT_TOLERANCE
    ) -> list[OutputPair]:
        """Pair the outputs of both nets, and compare them.

        Args:
            known: B's output for an output of A, where that was found before.
            tolerance: Largest relative error treated as equal.
        """
        names_a = [str(value.name) for value in self.a.graph.outputs]
        names_b = [str(value.name) for value in self.b.graph.outputs]
        only_one = len(names_a) == len(names_b) == 1
        free_b = list(names_b)
        pairs = []
        for name_a in names_a:
            name_b = (known or {}).get(name_a) or (
                names_b[0] if only_one else counterpart(self.alignment, name_a, free_b)
            )
            if name_b is None:
                pairs.append(OutputPair(name_a, ""))
                continue
            free_b.remove(name_b)
            pairs.append(self._compare(name_a, name_b, tolerance))
        return pairs + [OutputPair("", name) for name in free_b]

    def _compare(self, name_a: str, name_b: str, tolerance: float) -> OutputPair:
        x, y = self.a.tensors.get(name_a), self.b.tensors.get(name_b)
        if x is None or y is None:
            return OutputPair(name_a, name_b)
        known = self.alignment
        solved = solve_layout(x, y, tolerance=tolerance, hints=known.hints(), orientation=known.orientation)
        if solved is not None:
            change, error = in_order(known, solved[0]), solved[1]
            error = error if change is solved[0] else relative_error(change.apply(x), y)
        else:
            # of layouts that all leave an error, the one that most of the net's tensors have
            layouts = candidate_layouts(x.shape, y.shape, orientation=known.orientation)
            likely = max(layouts, key=known.num_votes, default=None)
            if likely is None:
                return OutputPair(name_a, name_b, float("inf"))
            change, error = likely, relative_error(likely.apply(x), y)
        mapping = TensorMapping.named(name_a, name_b, change, describe_output(change, x.shape, y.shape))
        return OutputPair(name_a, name_b, error, mapping, is_moved(known, name_a, name_b))


class PairRunner:
    """Runs both nets at one size; A is run once, B under each candidate for the mapping of the inputs.

    Args:
        a: The first net.
        b: The second net.
        sizes: Sizes of A's inputs.
        resizer: Resizes the nets.
        store: Holds what they compute.
        tapped: Whether every signal is wanted, and not the outputs alone.
        probe: A's inputs of these sizes; drawn if there are none.
        domains: Values that A's inputs can take, by name, so that B takes them as well.
        seed: Seed of the draw.
        scale: Factor on the usual size of floating-point inputs that are drawn.
    """

    def __init__(
        self,
        a: Side,
        b: Side,
        sizes: Sizes,
        resizer: Resizer,
        store: ValueStore,
        *,
        tapped: bool = True,
        probe: Mapping[str, np.ndarray] | None = None,
        domains: Mapping[str, Domain] | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> None:
        self._b = b
        self._sizes = sizes
        self._resizer = resizer
        self._store = store
        self._whole_a = a
        self._a = self._resized(a, sizes)
        self._tapped = tapped
        self._given = probe
        self._domains = domains
        self._seed = seed
        self._scale = scale
        self._probe: memory_budget.Probe | None = None

    def run(self, candidate: InputCandidate, *, without_b: bool = False) -> PairRun | None:
        """Run the nets under a candidate; None if one of them does not take the size.

        Args:
            candidate: How A's inputs become B's.
            without_b: Leave B unrun, for a net that takes no size that A takes. If A does not take the size
                either, as many of its nodes are run as do.

        Raises:
            RunError: A net takes the size as far as shapes are known, and does not run. Of a large net, that
                may show when its values are looked up.
        """
        if self._a is None and not without_b:
            return None
        sizes_b = {mapping.b: mapping.sizes_of_b(self._sizes[mapping.a]) for mapping in candidate.mappings}
        b = self._b if without_b else self._resized(self._b, sizes_b)
        if b is None:
            return None
        probe = self._run_in_part() if self._a is None else self._run_a(self._a)
        if self._a is None or probe is None:
            return None
        inputs = [mapping.tensor_mapping(probe.inputs[mapping.a].shape) for mapping in candidate.mappings]
        inputs_b = {mapping.b: mapping.apply(probe.inputs[mapping.a]) for mapping in inputs}
        tensors_b = HeldValues(inputs_b) if without_b else self._run(b, memory_budget.Probe(inputs_b, ""))
        b = b.with_tensors(tensors_b)
        if without_b:
            b = replace(b, own_values=cache(partial(self._own_values, b)))
        alignment = Alignment(self._a, b, orientation=candidate.orientation)
        for mapping in inputs:
            alignment.pair_signals(SignalPair(mapping.a, mapping.b, Evidence.VALUES, mapping, 0.0))
        return PairRun(candidate, alignment, probe.text, self._store, self._variation)

    def takes(self, candidate: InputCandidate) -> tuple[bool, bool]:
        """Return whether A and whether B runs at this size, under a candidate."""
        sizes_b = {mapping.b: mapping.sizes_of_b(self._sizes[mapping.a]) for mapping in candidate.mappings}
        b = self._resized(self._b, sizes_b)
        try:
            is_run = self._a is not None and self._run_a(self._a) is not None
        except RunError:
            is_run = False
        try:
            return is_run, b is not None and (not is_run or self.run(candidate) is not None)
        except RunError:
            return is_run, False

    def _resized(self, side: Side, sizes: Sizes) -> Side | None:
        with self._store.clock.time("infer shapes"):
            return self._resizer.resized(side, sizes)

    def _run_a(self, a: Side) -> memory_budget.Probe:
        if self._probe is None:
            probe = self._drawn(a.graph)
            self._keep(a.with_tensors(self._run(a, probe)), probe)
            return probe
        return self._probe

    def _run_in_part(self) -> memory_budget.Probe | None:
        """Run as many of A's nodes as take the size; None if the first does not."""
        a = self._whole_a
        inputs = [str(value.name) for value in a.graph.inputs]
        names, extractor = a.signals.names[len(inputs) :], Extractor(a.graph)

        def part(count: int) -> Graph | None:
            extracted = extractor.extract(inputs=inputs, outputs=names[:count])
            return memory_budget.resized(extracted, self._sizes)

        num_run = bisect_left(range(1, len(names) + 1), True, key=lambda count: part(count) is None)
        graph = part(num_run) if num_run else None
        if graph is None:
            return None
        probe = self._drawn(a.graph)
        tensors = TappedValues(graph, probe, names[:num_run], self._store, stage=f"run {a.name}")
        self._keep(a.with_tensors(tensors), probe)
        return probe

    def _drawn(self, graph: Graph) -> memory_budget.Probe:
        if self._given is None:
            return memory_budget.draw(
                graph, self._sizes, seed=self._seed, domains=self._domains, scale=self._scale
            )
        return memory_budget.given({name: x for name, x in self._given.items() if name in self._sizes})

    def _keep(self, a: Side, probe: memory_budget.Probe) -> None:
        self._a = a
        self._variation = Variation(a.signals, [a.tensors])
        self._probe = probe

    def _own_values(self, side: Side) -> SignalValues:
        """Return what a net computes on inputs that are drawn for it alone; nothing if it does not run."""
        sizes = sizes_to_run(side.graph)
        resized = self._resized(side, sizes)
        if resized is None:
            return HeldValues({})
        try:
            return self._run(resized, memory_budget.draw(resized.graph, sizes, seed=self._seed))
        except RunError:
            return HeldValues({})

    def _run(self, side: Side, probe: memory_budget.Probe) -> TappedValues:
        taps = side.signals.names if self._tapped else []
        return TappedValues(side.graph, probe, taps, self._store, stage=f"run {side.name}")
