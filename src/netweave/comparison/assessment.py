"""Assessment of many comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from math import inf
from typing import TYPE_CHECKING, Any

from netweave.comparison.align.alignment import Alignment
from netweave.comparison.explain.agreement import Agreement, review
from netweave.comparison.explain.coverage import measure_coverage
from netweave.comparison.explain.explainer import Judge
from netweave.comparison.explain.isolated import with_values
from netweave.comparison.explain.latent import all_folded
from netweave.comparison.input_choice import extend
from netweave.comparison.missing_weights import by_structure
from netweave.comparison.result.comparison import (
    EQUAL_VERDICTS,
    Comparison,
    Coverage,
    Group,
    OutputPair,
    TensorMapping,
    Unexercised,
)
from netweave.comparison.result.verdict import decide
from netweave.comparison.result.verdicts import Verdict

if TYPE_CHECKING:
    from netweave.comparison.execution.input_candidates import InputCandidate
    from netweave.comparison.execution.pair_run import PairRun
    from netweave.comparison.pipeline import StageLog
    from netweave.comparison.prepare import PreparedPair


FAR_APART = 0.01
"""Outputs that differ by more, relative to their rms, do so by more than roundings that accumulate."""

COPIED = "with weights copied from one net to the other: "


@dataclass(frozen=True, slots=True)
class Assessment:
    """The results for a pair of nets, on one probe or more.

    Attributes:
        pair: The pair.
        tolerance: Largest relative error of an output treated as equal.
        candidate: How B took A's inputs.
        inputs: The same at the sizes of the first probe, in words.
        groups: All groups, judged.
        outputs: All outputs, each with its largest error on any probe.
        agreement: What the agreement of the outputs is worth; None if they do not agree.
        probes: What the nets were run on, in words.
        coverage: What the first probe exercised in A; None if the outputs do not agree.
        unlike_inputs: Which inputs both nets have, in words, if B was not run for that; else empty.
        groups_with_values: Returns the groups with their values, while what the nets computed is there; None
            if values are not wanted, or are kept already.
    """

    pair: PreparedPair
    tolerance: float
    candidate: InputCandidate
    inputs: tuple[TensorMapping, ...]
    groups: Sequence[Group]
    outputs: Sequence[OutputPair]
    agreement: Agreement | None
    probes: tuple[str, ...]
    coverage: Coverage | None = None
    unlike_inputs: str = ""
    groups_with_values: Callable[[], Sequence[Group]] | None = None

    @property
    def is_equal(self) -> bool:
        """True if the nets compute the same, given the same weights."""
        return self._decided()[0] in EQUAL_VERDICTS | {Verdict.STRUCTURE}

    @property
    def has_findings(self) -> bool:
        """True if some layer differs, though it may have no effect."""
        return any(group.finding for group in self.groups)

    @property
    def is_out_of_reach(self) -> bool:
        """True if some layers differ only on values that the inputs do not reach."""
        return self.agreement is not None and self.agreement.is_out_of_reach

    def on_another_probe(self, run: PairRun, *, scale: float = 1.0) -> Assessment | None:
        """Return the assessment with another run under the same candidate; None if the outputs differ there.

        Args:
            run: The run, of which only the outputs are needed.
            scale: Factor on the usual size of its inputs. On unusual ones, only finite outputs count.
        """
        known = {pair.a: pair.b for pair in self.outputs if pair.mapping is not None}
        outputs = {(pair.a, pair.b): pair for pair in run.outputs(known, tolerance=self.tolerance)}
        if not all(pair.agrees(self.tolerance) for pair in outputs.values()):
            is_finite = all(pair.error not in {None, float("inf")} for pair in outputs.values())
            return None if is_finite or scale == 1 else self
        return replace(
            self,
            outputs=[_worse(pair, outputs.get((pair.a, pair.b))) for pair in self.outputs],
            probes=tuple(dict.fromkeys((*self.probes, run.text))),
        )

    def missing(self, *missed: Unexercised) -> Assessment:
        """Return the assessment with more that was not exercised."""
        return replace(self, coverage=(self.coverage or Coverage(0)).missing(*missed))

    def with_values(self, log: StageLog) -> Assessment:
        """Return the assessment with the values of its groups, where they are wanted.

        They tell nothing of the verdict, and of large nets some are computed again.
        """
        if self.groups_with_values is None:
            return self
        with log.stage("keep values"):
            return replace(self, groups=self.groups_with_values(), groups_with_values=None)

    def comparison(self, log: StageLog) -> Comparison:
        """Return the result: the verdict, and all that speaks for it."""
        verdict, sentence = self._decided()
        completion = self.pair.completion
        if completion.weights_copied and verdict is not Verdict.STRUCTURE:
            sentence = COPIED + sentence
        errors = [pair.error for pair in self.outputs if pair.error is not None]
        return Comparison(
            self.pair.a.source,
            self.pair.b.source,
            verdict,
            sentence,
            groups=by_structure(self.groups, completion),
            inputs=self.inputs,
            outputs=tuple(pair.mapping for pair in self.outputs if pair.mapping is not None),
            error=max(errors, default=None),
            probes=self.probes,
            notes=tuple(log.notes),
            seconds=log.seconds,
            coverage=self.coverage,
        )

    def _decided(self) -> tuple[Verdict, str]:
        return decide(
            self.inputs,
            self.outputs,
            self.groups,
            self.agreement,
            tolerance=self.tolerance,
            weights_compared=not self.pair.completion.weights_copied,
            unfilled=self.pair.completion.num_unfilled,
            joined=self._joined_in_words(),
            unlike_inputs=self.unlike_inputs,
            untried=self.coverage.differing if self.coverage is not None else (),
            limits=self.coverage.limits if self.coverage is not None else (),
        )

    def _joined_in_words(self) -> list[str]:
        """Say which outputs one net returns joined."""
        is_a = self.pair.joining == "A"
        others = {(pair.a if is_a else pair.b): (pair.b if is_a else pair.a) for pair in self.outputs}
        return [
            joined.in_words(self.pair.joining, [others.get(part) or part for part in joined.parts])
            for joined in self.pair.joined
        ]


def assess(
    run: PairRun, pair: PreparedPair, *, tolerance: float, log: StageLog, keep_values: bool = False
) -> Assessment:
    """Align both nets to the end, judge their groups, explain what differs, and review what agrees.

    Args:
        run: Both nets run, with the signals of equal values paired.
        pair: The pair.
        tolerance: Largest relative error of an output treated as equal.
        log: Takes times and notes.
        keep_values: Have the values of each group ready to be kept (``Assessment.with_values``).
    """
    with log.stage("align"):
        extend(run, pair.seeds)
    with log.stage("judge"):
        judge = Judge(run.alignment, pair.completion, log.clock)
        groups: Sequence[Group] = judge.groups()
    if pair.completion.weights_copied:
        _note_folded(run.alignment, log)
    outputs = run.outputs(tolerance=tolerance)
    agreement: Agreement | None = None
    coverage: Coverage | None = None
    if outputs and all(output.agrees(tolerance) for output in outputs):
        with log.stage("review"):
            variation = run.whole_variation()
            agreement = review(judge, groups, variation, tolerance=tolerance)
            groups = agreement.groups
        with log.stage("measure coverage"):
            coverage = measure_coverage(run.a, variation)
        for name, flaw in (agreement.flaws or {}).items():
            log.note(
                f"output {name!r} is {flaw} on the inputs tried; the verdict depends on the layers before it"
            )
    elif any(output.error is not None and FAR_APART <= output.error < inf for output in outputs):
        groups = judge.blame_untested(groups)
    return Assessment(
        pair,
        tolerance,
        run.candidate,
        run.inputs,
        groups,
        outputs,
        agreement,
        probes=(run.text,),
        coverage=coverage,
        groups_with_values=partial(with_values, run.alignment, judge.drafts, groups) if keep_values else None,
    )


def _note_folded(alignment: Alignment, log: StageLog) -> None:
    """Note that one net has no normalisation where copied weights make up for those of the other."""
    side = all_folded(alignment)
    if side is not None:
        log.note(
            f"{side.name} has no normalisation: those of {side.other_name} must be folded into its filters"
        )


def _worse(pair: OutputPair, other: OutputPair | None) -> OutputPair:
    """Return an output with the larger of its errors on two probes."""
    if other is None or other.error is None or (pair.error is not None and pair.error >= other.error):
        return pair
    return replace(pair, error=other.error)


@dataclass(frozen=True, slots=True)
class Matrix:
    """All pairs of several nets.

    Attributes:
        names: The nets, as the caller names them.
        pairs: The comparison of net ``i`` with net ``j``, for ``i < j``.
    """

    names: tuple[str, ...]
    pairs: dict[tuple[int, int], Comparison]

    @property
    def contradictions(self) -> tuple[tuple[int, int, int], ...]:
        """Nets ``(i, j, k)``: ``i`` equals ``j`` and ``j`` equals ``k``, but ``i`` differs from ``k``."""
        triples = []
        for i, j, k in permutations(range(len(self.names)), 3):
            joined = i < k and self._of(i, j).equal and self._of(j, k).equal
            if joined and self._of(i, k).verdict is Verdict.DIFFERENT:
                triples.append((i, j, k))
        return tuple(triples)

    @property
    def exit_status(self) -> int:
        """0 if all are equal, 1 if any two differ, else 3 if any is not decidable, else 4."""
        return max((c.exit_status for c in self.pairs.values()), key=(0, 4, 3, 1).index, default=0)

    @property
    def seconds(self) -> dict[str, float]:
        """Time of each stage over all pairs, by name."""
        seconds: dict[str, float] = {}
        for pair in self.pairs.values():
            for stage, taken in pair.seconds.items():
                seconds[stage] = seconds.get(stage, 0.0) + taken
        return seconds

    def to_json(self) -> dict[str, Any]:
        """Return names and pairs as JSON values."""
        pairs = [{"a": i, "b": j, **comparison.to_json()} for (i, j), comparison in self.pairs.items()]
        return {"names": list(self.names), "pairs": pairs, "exit_status": self.exit_status}

    def _of(self, i: int, j: int) -> Comparison:
        return self.pairs[min(i, j), max(i, j)]
