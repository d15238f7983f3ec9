"""Which way to take the inputs: every candidate is judged by the whole of the net that it explains.

Where all weights tell the same way, or the outputs agree, one run is enough. Otherwise the nets are aligned
under each candidate, and the one that leaves the fewest groups wrong is taken: a first layer that is itself
damaged tells a false way, under which the layers behind it are wrong, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netweave.comparison.align.alignment import Alignment, match_values
from netweave.comparison.align.chains import FILTERS
from netweave.comparison.align.structure import Extension
from netweave.comparison.explain.judge import Judge
from netweave.comparison.result.comparison import Evidence
from netweave.comparison.signals import family_of
from netweave.errors import RunError

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.comparison.trial.candidates import Candidate
    from netweave.comparison.trial.trial import Bench, Trial

Stage = Callable[[str], AbstractContextManager[None]]
"""Takes the time of a stage, by its name."""

NodePairs = Sequence[tuple["ir.Node", "ir.Node"]]


@dataclass(slots=True)
class Chooser:
    """Tries candidates on one bench.

    Attributes:
        bench: Runs both nets at one size.
        weights: Pairs of nodes with the same weights.
        tolerance: Largest error of an output that counts as none.
        stage: Takes the time of a stage.
        failure: Why the first candidate that did not run does not.
    """

    bench: Bench
    weights: NodePairs
    tolerance: float
    stage: Stage
    failure: RunError | None = None

    def choose(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Trial] | None:
        """Return the candidate that explains the most, and both nets run under it; None if none runs."""
        best: tuple[Candidate, Trial] | None = None
        least: tuple[int, ...] = ()
        is_last = False
        for candidate, trial in self._trials(candidates):
            if len(candidates) == 1 or self._is_enough(candidate, trial):
                return candidate, trial
            unexplained = self._unexplained(candidate, trial)
            is_last = best is None or unexplained < least
            if is_last:
                best, least = (candidate, trial), unexplained
        if best is not None and not is_last:
            self.bench.fit(best[0].rules)  # B may have been left with the shapes of another candidate
        return best

    def _trials(self, candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, Trial]]:
        for candidate in candidates:
            try:
                with self.stage("run"):
                    trial = self.bench.trial(candidate.rules, turn=candidate.turn)
            except RunError as error:
                self.failure = self.failure or error
                continue
            if trial is not None:
                with self.stage("match values"):
                    match_values(trial.alignment, trial.tensors_a, trial.tensors_b)
                yield candidate, trial

    def _is_enough(self, candidate: Candidate, trial: Trial) -> bool:
        """Whether no other candidate can explain more."""
        # a factor on the first filters may be one on the input, or be made up for by the filters behind them
        if candidate.is_settled and all(rule.scale == 1.0 for rule in candidate.rules):
            return True
        if not candidate.is_told:
            return _proves_filters(trial.alignment)
        # outputs may agree because they are saturated
        return _proves_filters(trial.alignment) and self._agrees(trial)

    def _agrees(self, trial: Trial) -> bool:
        outputs = trial.outputs(tolerance=self.tolerance)
        return bool(outputs) and all(pair.agrees(self.tolerance) for pair in outputs)

    def _unexplained(self, candidate: Candidate, trial: Trial) -> tuple[int, ...]:
        """Return what a candidate leaves unexplained; of two, the lesser is the better."""
        if not candidate.is_told:
            return (-trial.num_proven,)
        with self.stage("align"):
            extend(trial, self.weights)
        with self.stage("judge"):
            num_wrong = Judge(trial.alignment, trial.tensors_a, trial.tensors_b).num_wrong()
        return not self._agrees(trial), num_wrong, *candidate.preference


def _proves_filters(alignment: Alignment) -> bool:
    """Whether some filters of B make what A's do: other values may not depend on the layout of the inputs."""
    filters = {name for name, node in alignment.b.producer.items() if family_of(node) in FILTERS}
    proven = alignment.of_b.keys() & alignment.b.producer.keys()
    return bool(proven & filters if filters else proven)


def extend(trial: Trial, weights: NodePairs) -> None:
    """Grow the alignment of a trial by weights and by structure, unless that was done before.

    Args:
        trial: The trial, with its values matched.
        weights: Pairs of nodes with the same weights, of these nets or of copies of them.
    """
    if trial.is_extended:
        return
    trial.is_extended = True
    alignment = trial.alignment
    extension = Extension(alignment, trial.tensors_a, trial.tensors_b)
    nodes_a, nodes_b = ({n.name: n for n in signals.nodes} for signals in (alignment.a, alignment.b))
    for node_a, node_b in weights:
        if node_a.name in nodes_a and node_b.name in nodes_b:
            extension.seed(nodes_a[node_a.name], nodes_b[node_b.name], Evidence.WEIGHTS)
    extension.run()
