"""At which sizes and on which inputs a pair is run until its verdict stands.

First at a size that is neither square nor even, where most differences of settings show; if the nets are
equal there, at the sizes that they declare; and if all differences are without effect, on more inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from netweave.comparison.assessment import Assessment, assess
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.layer_range import taken_out
from netweave.comparison.execution.pair_run import PairRunner
from netweave.comparison.execution.sizes import (
    LARGEST_INPUT,
    Resizer,
    SizeKey,
    Sizes,
    batches_beyond,
    declared_sizes,
    frozen_side,
    oblong,
    size_key,
    sizes_beyond,
    sizes_text,
    unreached_windows,
)
from netweave.comparison.input_choice import run_best
from netweave.comparison.prepare import NotComparableError
from netweave.comparison.result.comparison import Unexercised
from netweave.errors import RunError, UsageError
from netweave.graph.costs import node_costs
from netweave.graph.summary import value_summary

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.comparison.execution.input_candidates import InputCandidate
    from netweave.comparison.execution.input_domains import Domain
    from netweave.comparison.execution.pair_run import PairRun
    from netweave.comparison.execution.tapped_values import ValueStore
    from netweave.comparison.pipeline import CompareOptions, StageLog
    from netweave.comparison.prepare import PreparedPair
    from netweave.graph import Graph

FURTHER_SEEDS = range(1, 5)
"""More inputs are drawn by these before a difference is said to be without effect."""

UNUSUAL_SCALES = (1000.0, 0.001)
"""Factors on the usual size of inputs, for layers that decide by values that the usual ones do not reach."""

COSTLY_MULTIPLY_ADDS = 50_000_000_000
"""A net that takes more for all usual samples is run on fewer: on two cores, that is a second and more."""

LARGE_BATCH = 16
"""Samples on which nets are run that do not run on few: one of them reads past the end of a small batch."""


def usual_samples(graph: Graph) -> int:
    """Return how many samples are drawn of an open batch where nobody says it.

    Of costly nets two, which still show what depends on the input, and what a net does with a batch.

    Args:
        graph: The net, with the shapes that are known; what is not known costs nothing.
    """
    if not any(memory_budget.has_open_batch(value) for value in graph.inputs):
        return memory_budget.NUM_SAMPLES  # the batch is as declared
    cost = sum(node_costs(graph).multiply_adds)
    return 2 if cost * memory_budget.NUM_SAMPLES > COSTLY_MULTIPLY_ADDS else memory_budget.NUM_SAMPLES


def assess_sizes(pair: PreparedPair, options: CompareOptions, log: StageLog, store: ValueStore) -> Assessment:
    """Run a pair at one size after another, and return what was found, its values perhaps to be kept yet.

    Args:
        pair: The pair.
        options: What the caller chose.
        log: Takes times and notes.
        store: Holds what the nets compute.

    Raises:
        RunError: A net cannot be run at any size that both take.
        UsageError: The probe does not fit.
        NotComparableError: The nets take no common size.
    """
    return _Search(pair, options, log, store).run()


def check_probe(probe: Mapping[str, np.ndarray], names: Sequence[str]) -> None:
    """Refuse a probe that lacks inputs, or holds values that are no numbers.

    Raises:
        UsageError: It does.
    """
    missing = [name for name in names if name not in probe]
    if missing:
        given = ", ".join(map(repr, probe))
        raise UsageError(f"the probe has no {', '.join(map(repr, missing))}, an input of A; it has {given}")
    memory_budget.check_finite(probe)


@dataclass(slots=True)
class _Search:
    pair: PreparedPair
    options: CompareOptions
    log: StageLog
    store: ValueStore
    resizer: Resizer = field(default_factory=Resizer)
    domains: Mapping[str, Domain] = field(default_factory=dict)
    failures: dict[SizeKey, RunError] = field(default_factory=dict)
    """Sizes of A's inputs that fit as far as shapes are known, and that a net then does not run at."""

    def run(self) -> Assessment:
        assessment = self._searched()
        if not assessment.is_equal:
            return assessment
        missed = list(taken_out(self.pair.a, self.pair.b, assessment.candidate.mappings))
        missed += [
            Unexercised(f"input {name!r}", "", f"it sets a size, and was {domain.low} or {domain.high} alone")
            for name, domain in self.domains.items()
            if domain.kind == "size"
        ]
        frozen = frozen_side(self.pair.a.graph, self.pair.b.graph)
        if frozen is not None and self.options.inputs is None:
            reason = f"what {frozen} computes holds for its own size alone"
            missed.append(Unexercised("other sizes", "", reason, is_limit=True))
        return assessment.missing(*missed) if missed else assessment

    def _searched(self) -> Assessment:
        sizes = self._sizes()
        self.domains = self._domains()
        assessment: Assessment | None = None
        for size in map(dict, dict.fromkeys(map(size_key, sizes))):
            if assessment is None:
                assessment = self._assess(size, self.pair.candidates)
            elif assessment.is_equal:
                assessment = assessment.with_values(self.log)  # before others take their place
                # where the outputs differ at this size, the layers are judged again, at it
                assessment = (
                    self._confirm(assessment, size) or self._assess(size, self.pair.candidates) or assessment
                )
        if assessment is None and self.failures and self.options.inputs is None:
            sizes = self._sizes(LARGE_BATCH)[-1:]
            assessment = self._assess(sizes[0], self.pair.candidates)
        if assessment is None and self.failures:
            raise next(iter(self.failures.values()))
        if assessment is None:
            return self._without_b(sizes[-1])
        if self.options.inputs is None and not self.options.one_size and assessment.is_equal:
            assessment = self._at_constant_sizes(assessment)
        if self.options.inputs is None and assessment.is_equal and assessment.has_findings:
            return self._on_more_inputs(assessment.with_values(self.log), sizes)
        return assessment

    def _sizes(self, batch: int | None = None) -> list[Sizes]:
        """Return sizes of A's inputs to compare at: the probe's, or an oblong one and the declared one.

        Args:
            batch: Size of an open batch, where the caller chose none; the usual one if it is None.
        """
        a, b, mappings = self.pair.a, self.pair.b, self.pair.candidates[0].mappings
        probe = self.options.inputs
        if probe is None:
            num_samples = self.options.num_samples or batch or usual_samples(a.graph)
            declared = declared_sizes(a.graph, b.graph, mappings, num_samples=num_samples)
            if self.options.one_size or frozen_side(a.graph, b.graph) is not None:
                return [declared]
            return [oblong(declared, mappings), declared]
        names = [mapping.a for mapping in mappings]
        check_probe(probe, names)
        return [{name: probe[name].shape for name in names}]

    def _assess(
        self,
        sizes: Sizes,
        candidates: Sequence[InputCandidate],
        *,
        seed: int = 0,
        scale: float = 1.0,
    ) -> Assessment | None:
        """Run and assess the pair at one size; None if it does not run there."""
        probe, tolerance = self.options.inputs, self.options.tolerance
        with self.log.stage("run"):
            drawn_by = self.options.seed + seed
            runner = self._runner(sizes, probe=probe, seed=drawn_by, scale=scale)
        try:
            run = run_best(runner, candidates, self.pair.seeds, tolerance=tolerance, log=self.log)
        except RunError as error:
            if probe is None and self._narrow():
                return self._assess(sizes, candidates, seed=seed)
            self.failures[size_key(sizes)] = error
            self.log.note(f"not compared at {sizes_text(sizes)}: one of the nets cannot be run at this size")
            return None
        if run is None:
            return None
        return self._judged(run)

    def _domains(self, *, is_narrow: bool = False) -> dict[str, Domain]:
        a, b, mappings = self.pair.a.graph, self.pair.b.graph, self.pair.candidates[0].mappings
        return pair_domains(a, b, mappings, is_narrow=is_narrow)

    def _narrow(self) -> bool:
        """Draw integers from 0 and 1 alone from now on; return whether that makes a difference."""
        narrow = self._domains(is_narrow=True)
        if narrow == self.domains:
            return False
        self.domains = narrow
        self.log.note("integer inputs were drawn from 0 and 1 alone: the nets do not run on others")
        return True

    def _runner(
        self,
        sizes: Sizes,
        *,
        tapped: bool = True,
        probe: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
        scale: float = 1.0,
    ) -> PairRunner:
        a, b = self.pair.a, self.pair.b
        return PairRunner(
            a,
            b,
            sizes,
            self.resizer,
            self.store,
            tapped=tapped,
            probe=probe,
            domains=self.domains,
            seed=seed,
            scale=scale,
        )

    def _judged(self, run: PairRun) -> Assessment:
        keeps = self.options.keep_values
        return assess(run, self.pair, tolerance=self.options.tolerance, log=self.log, keep_values=keeps)

    def _confirm(
        self, assessment: Assessment, sizes: Sizes, *, seed: int = 0, scale: float = 1.0
    ) -> Assessment | None:
        """Return an assessment with one more probe, of which only the outputs are looked at.

        The same if the nets do not take the size; None if the outputs differ there.
        """
        with self.log.stage("check another size"):
            drawn_by = self.options.seed + seed
            runner = self._runner(sizes, tapped=False, seed=drawn_by, scale=scale)
            run = runner.run(assessment.candidate)
            return assessment if run is None else assessment.on_another_probe(run, scale=scale)

    def _on_more_inputs(self, assessment: Assessment, sizes: Sequence[Sizes]) -> Assessment:
        """Draw more inputs, on which a difference that had no effect so far may have one."""
        taken = [size for size in sizes if size_key(size) not in self.failures]
        for seed in FURTHER_SEEDS:
            for size in taken:
                if self._confirm(assessment, size, seed=seed) is None:
                    return self._assess(size, [assessment.candidate], seed=seed) or assessment
        return self._at_other_scales(assessment, taken[-1]) if assessment.is_out_of_reach else assessment

    def _at_other_scales(self, assessment: Assessment, size: Sizes) -> Assessment:
        """Draw inputs of other sizes than usual, which reach what only some layers decide by."""
        for scale in UNUSUAL_SCALES:
            if self._confirm(assessment, size, scale=scale) is None:
                return self._assess(size, [assessment.candidate], scale=scale) or assessment
        return assessment

    def _at_constant_sizes(self, assessment: Assessment) -> Assessment:
        """Compare beyond each constant size that only one net has: windows, buffers, tables of positions."""
        a, b, mappings = self.pair.a.graph, self.pair.b.graph, assessment.candidate.mappings
        for size in sizes_beyond(a, b, mappings):
            taken = self._takes(size, assessment.candidate)
            if taken == (True, True):
                if self._confirm(assessment, size) is None:
                    return self._assess(size, [assessment.candidate]) or assessment
            elif any(taken):
                takes, refuses = ("A", "B") if taken[0] else ("B", "A")
                reason = f"{takes} takes it, {refuses} does not"
                missed = Unexercised(f"size {sizes_text(size)}", "", reason, differs=True)
                assessment = assessment.missing(missed)
        for size in batches_beyond(a, b, mappings):
            is_run = sum(map(prod, size.values())) <= LARGEST_INPUT
            if not is_run or self._takes(size, assessment.candidate) != (True, True):
                missed = Unexercised(
                    f"size {sizes_text(size)}", "", "not run at so many samples", differs=True
                )
                assessment = assessment.missing(missed)
            elif self._confirm(assessment, size) is None:
                return self._assess(size, [assessment.candidate]) or assessment
        for end, fixed in unreached_windows(a, b, mappings):
            reason = f"{fixed} was read for a smaller size"
            assessment = assessment.missing(Unexercised(f"slice at {end}", "", reason, differs=True))
        return assessment

    def _takes(self, sizes: Sizes, candidate: InputCandidate) -> tuple[bool, bool]:
        """Return whether A and whether B runs at a size."""
        runner = self._runner(sizes, tapped=False)
        return runner.takes(candidate)

    def _without_b(self, sizes: Sizes) -> Assessment:
        """Assess with A alone run: B takes no size that A takes, but its layers can be tested one by one.

        A net that takes no size at all, since one of its settings is wrong, is run as far as that shows.
        """
        run = self._runner(sizes).run(self.pair.candidates[0], without_b=True)
        a, b = (
            ", ".join(f"{value.name} {value_summary(value)}" for value in side.source.inputs)
            for side in (self.pair.a, self.pair.b)
        )
        if run is None:
            raise NotComparableError(
                f"there is no input size on which both nets can be run: A takes {a}, and B takes {b}"
            )
        if all(name in run.a.tensors for name in run.a.signals.outputs):
            self.log.note(f"B has the inputs {b} and cannot be run on {run.text}: its sizes would not match")
        else:
            self.log.note(f"A cannot be run to its end on {run.text}: its sizes would not match")
        return replace(self._judged(run), unlike_inputs=f"A takes {a}, and B takes {b}")
