"""The way of a comparison: signals, seeds, extension, grafts, explanation, verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from netweave.comparison.align.weights import match_weights
from netweave.comparison.choice import Chooser, NodePairs, extend
from netweave.comparison.copied_weights import Completion, complete_weights, redrawn
from netweave.comparison.explain.agreement import Agreement, review
from netweave.comparison.explain.judge import Judge
from netweave.comparison.explain.latent import all_folded
from netweave.comparison.metric import OUTPUT_TOLERANCE
from netweave.comparison.missing_weights import by_structure, find_weights, nodes_with
from netweave.comparison.part import cut_parts
from netweave.comparison.result.comparison import Comparison, Verdict
from netweave.comparison.result.verdict import decide
from netweave.comparison.signals import Signals, branched, comparable
from netweave.comparison.stored import compare_stored
from netweave.comparison.trial import probes
from netweave.comparison.trial.candidates import Candidate, input_candidates
from netweave.comparison.trial.inputs import InputRule, pair_inputs
from netweave.comparison.trial.trial import Bench, Sizes, Trial, declared_sizes, oblong
from netweave.comparison.trial.variation import Variation
from netweave.errors import RunError, UsageError
from netweave.graph.collection import collector_at_rest
from netweave.graph.summary import value_summary
from netweave.passes import to_inference
from netweave.passes.spread import find_branchings

if TYPE_CHECKING:
    import numpy as np

    from netweave.comparison.align.alignment import Alignment
    from netweave.comparison.missing_weights import Weights
    from netweave.graph import Graph
    from netweave.passes.spread import Branchings

Progress = Callable[[str], None]

FURTHER_SEEDS = range(1, 5)
"""More inputs are drawn by these before a difference is said to be without effect."""

SizeKey = tuple[tuple[str, tuple[int, ...]], ...]
"""Sizes of inputs by name, in the order of the names."""


def compare(
    a: Graph,
    b: Graph,
    *,
    first: str | None = None,
    last: str | None = None,
    probe: Mapping[str, np.ndarray] | None = None,
    tolerance: float = OUTPUT_TOLERANCE,
    one_size: bool = False,
    progress: Progress | None = None,
) -> Comparison:
    """Compare two nets: are they the same, and if not, where and why?

    Args:
        a: The first net, the one that is taken for right.
        b: The second net, the port.
        first: Layer, node or value of A that the compared part begins with.
        last: Layer, node or value of A that it ends with.
        probe: Inputs of A (of the part's, if there is one) to run on, by name, instead of drawn ones.
        tolerance: Largest error of an output, relative to its rms, that counts as none, > 0.
        one_size: Compare at the declared sizes alone, for a net that was made for one size of its images.
        progress: Told the name of each stage as it begins.

    Raises:
        UsageError: There is no such layer, or the probe does not fit.
        RunError: A net cannot be run at all.
    """
    told = progress or (lambda stage: None)
    if a.only_weights or b.only_weights:
        if first is not None or last is not None or probe is not None:
            raise UsageError(
                "one of the two is weights alone: it has no part to cut out, and runs on no probe"
            )
        told("compare weights")
        return compare_stored(a, b)
    with collector_at_rest():
        if first is None and last is None:
            return _into_branches(a, b, _Pipeline(a, b, told, probe, tolerance, one_size))
        whole = _Pipeline(a, b, told, None, tolerance).run()
        parts = cut_parts(comparable(a), comparable(b), whole, first=first, last=last)
        return _Pipeline(*parts, told, probe, tolerance).run()


def _into_branches(a: Graph, b: Graph, pipeline: _Pipeline) -> Comparison:
    """Compare two nets; if they differ and one has branches, once more branch by branch, which tells more.

    There they may be equal, too: branches whose pieces stand in another order are not joined in both.
    """
    found = pipeline.run()
    if found.same_structure:
        return found
    branchings: Branchings = {}
    for graph in (a, b):
        for count, op_types in find_branchings(to_inference(graph)).items():
            branchings[count] = branchings.get(count, set()) | op_types
    if not branchings:
        return found
    closer = replace(
        pipeline,
        form=partial(branched, branchings=branchings),
        notes=[],
        failures={},
        completion=Completion(copied=False),
        foreign=(frozenset(), frozenset()),
    ).run()
    return found if closer.verdict is Verdict.UNDECIDED else closer


@dataclass(slots=True)
class _Pipeline:
    source_a: Graph
    source_b: Graph
    progress: Progress
    probe: Mapping[str, np.ndarray] | None
    tolerance: float
    one_size: bool = False
    form: Callable[[Graph], Graph] = comparable
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    structural: bool = False
    """Whether weights were copied from one net to the other, so that only the structure is compared."""
    completion: Completion = field(default_factory=lambda: Completion(copied=False))
    """What the nets were given in the place of weights that they came without."""
    foreign: tuple[frozenset[str], frozenset[str]] = (frozenset(), frozenset())
    """Names of each net's nodes that ran with weights which are not its own."""
    chosen: Candidate = field(default_factory=Candidate)
    """How the inputs were taken in the last trial."""
    failures: dict[SizeKey, RunError] = field(default_factory=dict)
    """Sizes of A's inputs that fit as far as shapes are known, and that a net then does not run at."""

    def run(self) -> Comparison:
        with self._stage("normalise"):
            a, b = Signals.of(self.form(self.source_a)), Signals.of(self.form(self.source_b))
        pairs = pair_inputs(a, b)
        if not a.nodes or not b.nodes:
            empty = "A" if not a.nodes else "B"
            return self._undecided(f"{empty} computes nothing: it has no node that changes a value")
        if pairs is None:
            counts = len(a.graph.inputs), len(b.graph.inputs)
            return self._undecided(
                f"A takes {counts[0]} inputs and B takes {counts[1]}; they cannot be paired"
            )
        weights_of = find_weights((self.source_a, self.source_b), (a, b))
        if any(weights.missing for weights in weights_of):
            with self._stage("copy weights"):
                a = self._complete(a, b, pairs, weights_of)
        with self._stage("match weights"):
            weights = match_weights(a.nodes, b.nodes)
            candidates = input_candidates(a, b, pairs, weights)
        sizes = self._sizes(a, b, candidates[0].rules)
        found = self._first(a, b, candidates, weights, sizes)
        if found is None and self.failures:
            raise next(iter(self.failures.values()))
        if found is None:
            found = self._without_b(a, b, candidates[0], weights, sizes[-1])
        if found is None:
            return self._undecided("the two nets take no common input size")
        sentence = found.sentence
        if self.structural and found.verdict is not Verdict.STRUCTURE:
            sentence = f"by structure, with weights copied from one to the other: {sentence}"
        return replace(found, sentence=sentence, notes=tuple(self.notes), seconds=self.seconds)

    def _complete(
        self, a: Signals, b: Signals, pairs: Sequence[tuple[str, str]], weights: tuple[Weights, Weights]
    ) -> Signals:
        """Give both nets weights; return A's signals, which may be others then."""
        drawn = redrawn(self.source_a, weights)
        if drawn is not None:
            a = Signals.of(self.form(drawn))
        self.completion = complete_weights(a, b, pairs, weights)
        self.structural = self.completion.copied or any(side.absent for side in weights)
        self.foreign = nodes_with(a, weights[0].missing), nodes_with(b, weights[1].missing)
        self.notes += self.completion.notes
        return a

    def _sizes(self, a: Signals, b: Signals, rules: Sequence[InputRule]) -> list[Sizes]:
        """Return sizes of A's inputs to compare at: the probe's, or an oblong one and the declared one."""
        if self.probe is None:
            declared = declared_sizes(a.graph, b.graph, rules)
            return [declared] if self.one_size else [oblong(declared), declared]
        missing = [rule.a for rule in rules if rule.a not in self.probe]
        if missing:
            given = ", ".join(map(repr, self.probe))
            raise UsageError(
                f"the probe has no {', '.join(map(repr, missing))}, an input of A; it has {given}"
            )
        probes.check_finite(self.probe)
        return [{rule.a: self.probe[rule.a].shape for rule in rules}]

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        self.progress(name)
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def _undecided(self, reason: str) -> Comparison:
        return Comparison(
            self.source_a,
            self.source_b,
            Verdict.UNDECIDED,
            f"not decidable: {reason}",
            notes=tuple(self.notes),
            seconds=self.seconds,
        )

    def _first(
        self,
        a: Signals,
        b: Signals,
        candidates: Sequence[Candidate],
        weights: NodePairs,
        sizes: Sequence[Sizes],
    ) -> Comparison | None:
        """Compare at the first size that both nets take; if they are equal there, check the other sizes."""
        found: Comparison | None = None
        for size in dict.fromkeys(map(_key, sizes)):
            if found is not None and not found.same_structure:
                break
            if found is not None:
                agreed = self._agree(a, b, found, dict(size))
                if agreed is not None:
                    found = agreed
                    continue
            trial = self._trial(a, b, candidates, weights, dict(size))
            if trial is not None:
                found = self._judge(trial, weights)
        if found is None or not found.same_structure or not found.findings or self.probe is not None:
            return found
        return self._provoked(a, b, found, weights, sizes)

    def _provoked(
        self,
        a: Signals,
        b: Signals,
        found: Comparison,
        weights: NodePairs,
        sizes: Sequence[Sizes],
    ) -> Comparison:
        """Draw more inputs, on which a difference that had no effect so far may have one."""
        runs = [size for size in sizes if _key(size) not in self.failures]
        for seed in FURTHER_SEEDS:
            for size in runs:
                agreed = self._agree(a, b, found, size, seed=seed)
                if agreed is None:
                    trial = self._trial(a, b, [self.chosen], weights, size, seed=seed)
                    return found if trial is None else self._judge(trial, weights)
        return found

    def _trial(
        self,
        a: Signals,
        b: Signals,
        candidates: Sequence[Candidate],
        weights: NodePairs,
        sizes: Sizes,
        *,
        seed: int = 0,
    ) -> Trial | None:
        """Run both nets, the inputs taken in the way that explains the most."""
        with self._stage("run"):
            bench = Bench(a, b, sizes, probe=self.probe, seed=seed)
        chooser = Chooser(bench, weights, self.tolerance, self._stage)
        found = chooser.choose(candidates)
        if found is not None:
            self.chosen = found[0]
            return found[1]
        if chooser.failure is not None:
            self.failures[_key(sizes)] = chooser.failure
            shapes = ", ".join(f"{name} {'x'.join(map(str, size))}" for name, size in sizes.items())
            self.notes.append(f"not compared at {shapes}, at which a net does not run")
        return None

    def _without_b(
        self,
        a: Signals,
        b: Signals,
        candidate: Candidate,
        weights: NodePairs,
        sizes: Sizes,
    ) -> Comparison | None:
        """Compare with A alone run: B takes no size that A takes, but its layers can be tested one by one."""
        trial = Bench(a, b, sizes).trial(candidate.rules, turn=candidate.turn, without_b=True)
        if trial is None:
            return None
        own = ", ".join(f"{value.name} {value_summary(value)}" for value in self.source_b.inputs)
        self.notes.append(
            f"B, whose inputs are {own}, does not take {trial.text}: its sizes do not fit together then"
        )
        return self._judge(trial, weights)

    def _judge(self, trial: Trial, weights: NodePairs) -> Comparison:
        with self._stage("align"):
            extend(trial, weights)
        with self._stage("judge"):
            judge = Judge(
                trial.alignment,
                trial.tensors_a,
                trial.tensors_b,
                unfilled=self.completion.unfilled,
                weights_copied=self.structural,
                reordered=self.completion.reordered,
            )
            groups = judge.groups()
            self._tell_folded(trial.alignment)
        outputs = trial.outputs(tolerance=self.tolerance)
        agreement: Agreement | None = None
        if outputs and all(pair.agrees(self.tolerance) for pair in outputs):
            with self._stage("review"):
                runs = [trial.tensors_a, *trial.other_runs()]
                variation = Variation(trial.alignment.a, runs)
                agreement = review(judge, groups, variation, tolerance=self.tolerance)
                groups = list(agreement.groups)
                self._tell_flaws(agreement)
        inputs = trial.inputs
        verdict, sentence = decide(
            inputs,
            outputs,
            groups,
            agreement,
            tolerance=self.tolerance,
            weights_compared=not self.structural,
            unfilled=sum(map(len, self.completion.unfilled)),
        )
        return Comparison(
            self.source_a,
            self.source_b,
            verdict,
            sentence,
            groups=by_structure(groups, *self.foreign),
            inputs=inputs,
            outputs=tuple(pair.mapping for pair in outputs if pair.mapping is not None),
            error=max((pair.error for pair in outputs if pair.error is not None), default=None),
            probes=(trial.text,),
        )

    def _tell_folded(self, alignment: Alignment) -> None:
        """Note that one net has no normalisation where copied weights make up for those of the other."""
        name = all_folded(alignment) if self.structural else ""
        other = "B" if name == "A" else "A"
        note = f"{name} has no normalisation: it would have to hold those of {other} in its filters"
        if name and note not in self.notes:
            self.notes.append(note)

    def _tell_flaws(self, agreement: Agreement) -> None:
        """Note which outputs agree without proving anything."""
        for name, flaw in (agreement.flaws or {}).items():
            note = f"output {name!r} is {flaw} on the inputs tried; the layers before it decide"
            if note not in self.notes:
                self.notes.append(note)

    def _agree(
        self, a: Signals, b: Signals, found: Comparison, sizes: Sizes, *, seed: int = 0
    ) -> Comparison | None:
        """Return the comparison with one more probe if the outputs agree there too, or it is not taken."""
        with self._stage("check another size"):
            bench = Bench(a, b, sizes, tapped=False, seed=seed)
            trial = bench.trial(self.chosen.rules, turn=self.chosen.turn)
            if trial is None:
                return found
            known = {mapping.a: mapping.b for mapping in found.outputs}
            outputs = trial.outputs(known, tolerance=self.tolerance)
        if not all(pair.agrees(self.tolerance) for pair in outputs):
            return None
        errors = [error for error in (found.error, *(pair.error for pair in outputs)) if error is not None]
        tried = tuple(dict.fromkeys((*found.probes, trial.text)))
        return replace(found, probes=tried, error=max(errors, default=None))


def _key(sizes: Sizes) -> SizeKey:
    return tuple(sorted(sizes.items()))
