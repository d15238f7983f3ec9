"""Choice of the mapping of the inputs: every candidate is judged by the whole net that it explains.

Where all weights say the same, or the outputs agree, one run is enough. Otherwise the nets are aligned under
each candidate, and the one that leaves the fewest groups wrong is taken: a first layer that is itself damaged
implies a false mapping, under which the layers behind it are wrong, one after the other (decision 0125).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.comparison.align.chains import FILTERS
from netweave.comparison.align.structure import Extension
from netweave.comparison.align.value_matching import match_values
from netweave.comparison.explain.explainer import Judge
from netweave.comparison.metric import family_of
from netweave.comparison.result.comparison import Evidence
from netweave.errors import RunError

if TYPE_CHECKING:
    from netweave.comparison.execution.input_candidates import InputCandidate
    from netweave.comparison.execution.pair_run import PairRun, PairRunner
    from netweave.comparison.pipeline import StageLog
    from netweave.comparison.prepare import Side

NodePairs = Sequence[tuple["ir.Node", "ir.Node"]]


def run_best(
    runner: PairRunner,
    candidates: Sequence[InputCandidate],
    seeds: NodePairs,
    *,
    tolerance: float,
    log: StageLog,
) -> PairRun | None:
    """Run both nets under the candidate that explains the most; None if they take no common size.

    Args:
        runner: Runs both nets at one size.
        candidates: Ways in which B may take A's inputs, the likeliest first.
        seeds: Pairs of nodes with the same weights.
        tolerance: Largest relative error of an output treated as equal.
        log: Takes the times.

    Raises:
        RunError: The nets take the size as far as shapes are known, and run under none of the candidates.
    """
    failures: list[RunError] = []
    best: PairRun | None = None
    least: tuple[int, ...] = ()
    for run in _runs(runner, candidates, failures, log):
        if len(candidates) == 1 or _is_enough(run, tolerance):
            return run
        unexplained = _unexplained(run, seeds, tolerance, log)
        if best is None or unexplained < least:
            best, least = run, unexplained
    if best is None and failures:
        raise failures[0]
    return best


def extend(run: PairRun, seeds: NodePairs) -> None:
    """Grow the alignment of a run by weights and by structure, unless that was done before.

    Args:
        run: The run, with its values matched.
        seeds: Pairs of nodes with the same weights, of these nets or of others of the same names.
    """
    if run.is_extended:
        return
    run.is_extended = True
    extension = Extension(run.alignment)
    nodes_a, nodes_b = _by_name(run.a), _by_name(run.b)
    for node_a, node_b in seeds:
        if node_a.name in nodes_a and node_b.name in nodes_b:
            extension.seed(nodes_a[node_a.name], nodes_b[node_b.name], Evidence.WEIGHTS)
    extension.run()


def outputs_agree(run: PairRun, tolerance: float) -> bool:
    """Return whether both nets give the same outputs."""
    outputs = run.outputs(tolerance=tolerance)
    return bool(outputs) and all(pair.agrees(tolerance) for pair in outputs)


def _runs(
    runner: PairRunner, candidates: Sequence[InputCandidate], failures: list[RunError], log: StageLog
) -> Iterator[PairRun]:
    for candidate in candidates:
        try:
            with log.stage("run"):
                run = runner.run(candidate)
            if run is None:
                continue
            with log.stage("match values"):  # which looks up all values, and so runs all of a large net
                match_values(run.alignment, run.variation.flaw if run.has_samples else None)
        except RunError as error:
            failures.append(error)
            continue
        yield run


def _is_enough(run: PairRun, tolerance: float) -> bool:
    """Return whether no other candidate can explain more."""
    candidate = run.candidate
    # a factor on the first filters may be one on the input, or be made up for by the filters behind them
    if candidate.is_conclusive and all(mapping.scale == 1.0 for mapping in candidate.mappings):
        return True
    if not candidate.has_evidence:
        return _explains_filters(run)
    # outputs may agree because they are saturated, so some filters must agree as well
    return _explains_filters(run) and outputs_agree(run, tolerance)


def _unexplained(run: PairRun, seeds: NodePairs, tolerance: float, log: StageLog) -> tuple[int, ...]:
    """Return what a candidate leaves unexplained; of two, the lesser is the better."""
    if not run.candidate.has_evidence:
        return (-run.num_equal_signals,)
    with log.stage("align"):
        extend(run, seeds)
    with log.stage("judge"):
        num_wrong = Judge(run.alignment, clock=log.clock).num_wrong()
    return not outputs_agree(run, tolerance), num_wrong, *run.candidate.preference


def _explains_filters(run: PairRun) -> bool:
    """Return whether some filters of B compute the values of A's filters.

    Only filters count: other values may not depend on the layout of the inputs.
    """
    producers = run.b.signals.producer
    filters = {name for name, node in producers.items() if family_of(node) in FILTERS}
    paired = run.b.pairs.keys() & producers.keys()
    return bool(paired & filters if filters else paired)


def _by_name(side: Side) -> dict[str | None, ir.Node]:
    return {node.name: node for node in side.signals.nodes}
