"""The stages of a comparison, in order: prepare, run, align, judge, explain, decide."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.comparison.execution.memory_budget import MemoryBudget
from netweave.comparison.execution.value_store import ValueStore
from netweave.comparison.layer_range import cut_layer_range
from netweave.comparison.options import CompareOptions
from netweave.comparison.precision import compare_precisions
from netweave.comparison.prepare import NotComparableError, prepare
from netweave.comparison.result.comparison import Comparison
from netweave.comparison.result.verdicts import Verdict
from netweave.comparison.signals import ComparableForm, branched, comparable
from netweave.comparison.size_search import assess_sizes
from netweave.comparison.stage_log import StageLog
from netweave.comparison.stored import compare_stored
from netweave.errors import UsageError
from netweave.graph.collection import collector_at_rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.comparison.stage_log import Progress
    from netweave.graph import Graph

    OnVerdict = Callable[[Comparison], None]


def compare(
    a: Graph,
    b: Graph,
    options: CompareOptions | None = None,
    *,
    progress: Progress | None = None,
    on_verdict: OnVerdict | None = None,
    **settings: Any,
) -> Comparison:
    """Compare two nets: are they the same, and if not, where and why?

    Args:
        a: The first net, the one that is taken for right.
        b: The second net, the port.
        options: How; a probe holds inputs of A (of the compared part's, if there is one) by name, and memory
            is in bytes. Options that are about files and images are those of ``netweave.compare``.
        progress: Called with the name of each stage as it begins.
        on_verdict: Called at most once with the result, before the values of its groups are kept, if its
            verdict and sentence are certain by then.
        settings: Attributes of ``CompareOptions``, which are set on top of ``options``.

    Raises:
        UsageError: There is no such option or layer, the probe does not fit, or the memory is too little.
        RunError: A net cannot be run at all.
    """
    options = CompareOptions.of(options, settings)
    first, last, probe = options.first, options.last, options.inputs
    log = StageLog() if progress is None else StageLog(progress)
    if a.only_weights or b.only_weights:
        if first is not None or last is not None or probe is not None:
            raise UsageError(
                "one of the two contains only weights; a range of layers and a probe need two nets"
            )
        log.progress("compare weights")
        return compare_stored(a, b)
    # Nets that overflow are compared like others: what is not finite is judged where it matters. And graphs
    # are cycles of nodes and values, of which none dies on the way.
    with np.errstate(all="ignore"), collector_at_rest():
        store = ValueStore(MemoryBudget.of(options.memory_bytes, a, b), log.clock)
        exact = partial(_compare_exactly, options=options, log=log, store=store)
        rounded = compare_precisions(
            a, b, exact, probe=probe, tolerance=options.tolerance, seed=options.seed, log=log
        )
        return exact(a, b, on_verdict=on_verdict) if rounded is None else rounded


def _compare_exactly(
    a: Graph,
    b: Graph,
    *,
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None = None,
) -> Comparison:
    """Compare two nets, or a range of their layers, up to float32 rounding."""
    first, last = options.first, options.last
    if first is None and last is None:
        return _compare_branches(a, b, options, log, store, on_verdict)
    of_whole = replace(options, probe=None, one_size=False, keep_values=False)
    whole = _compare(a, b, comparable, of_whole, log, store)
    parts = cut_layer_range(comparable(a), comparable(b), whole, first=first, last=last)
    again = StageLog(log.progress, log.clock)
    return _compare(*parts, comparable, options, again, store, on_verdict)


def _compare_branches(
    a: Graph,
    b: Graph,
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None,
) -> Comparison:
    """Compare two nets; if they differ and one has branches, once more branch by branch, which tells more.

    There they may be equal, too: branches whose slices stand in another order are not joined in both
    (decision 0110).
    """
    form = ComparableForm()

    def is_enough(found: Comparison) -> bool:
        return found.same_structure or not form.branchings

    def tell(found: Comparison, *, is_closer: bool = False) -> None:
        is_certain = found.verdict is not Verdict.UNDECIDED if is_closer else is_enough(found)
        if on_verdict is not None and is_certain:
            on_verdict(found)

    comparison = _compare(a, b, form, options, log, store, tell)
    if is_enough(comparison):
        return comparison
    again = StageLog(log.progress, log.clock)
    tell_closer = partial(tell, is_closer=True)
    closer = _compare(a, b, partial(branched, branchings=form.branchings), options, again, store, tell_closer)
    return comparison if closer.verdict is Verdict.UNDECIDED else closer


def _compare(
    a: Graph,
    b: Graph,
    form: Callable[[Graph], Graph],
    options: CompareOptions,
    log: StageLog,
    store: ValueStore,
    on_verdict: OnVerdict | None = None,
) -> Comparison:
    """Compare two nets in one form."""
    try:
        pair = prepare(a, b, form, log, store)
        assessment = assess_sizes(pair, options, log, store)
        if on_verdict is not None:
            on_verdict(assessment.comparison(log))
        return assessment.with_values(log).comparison(log)
    except NotComparableError as reason:
        sentence = f"not decidable: {reason}"
        return Comparison(a, b, Verdict.UNDECIDED, sentence, notes=tuple(log.notes), seconds=log.seconds)
