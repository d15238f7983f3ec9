"""Nets of code, which is traced with sequences of one length, on longer ones and one step at a time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.sizes import SIZE_STEP
from netweave.comparison.explain.agreement import Agreement
from netweave.comparison.metric import relative_error
from netweave.comparison.result.comparison import Finding, Group, Status, Unexercised
from netweave.comparison.source_runs import agree, inputs_of_b, outputs_of_both, sources
from netweave.errors import NetweaveError
from netweave.graph.costs import node_costs
from netweave.graph.summary import ratio_text

if TYPE_CHECKING:
    from netweave.comparison.assessment import Assessment
    from netweave.comparison.pipeline import CompareOptions, StageLog
    from netweave.graph import CachedSteps, Graph

LONGEST = 1024
"""Numbers of the code up to this one are reached."""

MOST_LENGTHS = 24
"""So many lengths are run: of more numbers, evenly picked ones."""

COSTLY_MULTIPLY_ADDS = 50_000_000_000
"""Lengths at which a net takes more are not run."""

SAMPLES = 2
"""Sequences of each length."""

OF_MOST = re.compile(r"max|n_pos|ctx|context|block_size")
"""Names of the length that a net is made for, in lower case."""

OF_CACHE = re.compile(r"past|cache|kv")
"""Names of caches, of which it is said whether nets were run through them."""

MOST_LONGER_STEPS = 4
"""Most numbers of the code up to which, and beyond, cached steps are run."""

STEPS_BEYOND = 3
"""Tokens beyond such a number."""

MASK = "attention_mask"
"""Argument of which it is tried whether it takes padding out: 1 for each token that counts (Transformers)."""

PADDING = 3
"""Tokens of padding before the others."""

UNSPOKEN = re.compile(r"^number in|theta|base")
"""Names of numbers that are no lengths for sure, and of which nothing is said if they are not reached."""


@dataclass(slots=True)
class _Longer:
    """Runs the code of two nets on longer sequences.

    Attributes:
        assessment: What was found at the length that the nets were read with.
        length: That length.
        options: What the caller chose.
        reached: Longest sequence on which both nets agree.
        apart: The shortest on which they do not.
        refused: The shortest that only one net takes, what is said of it, and whether it is longer than that
            net is made for.
        is_padded: Both nets agree on padding before the tokens, which their masks take out.
    """

    assessment: Assessment
    length: int
    options: CompareOptions
    reached: int = 0
    apart: int | None = None
    refused: tuple[str, str, bool] | None = None
    is_padded: bool = False

    def run(self) -> None:
        """Run both nets at each length, the shorter ones first, until they differ."""
        graphs = sources(self.assessment)
        mappings = self.assessment.candidate.mappings
        domains = pair_domains(*graphs, mappings)
        lengths = self._lengths()
        if not lengths or any(graph.trace is None and _length(graph) is not None for graph in graphs):
            return  # too dear, or a file that is of one length
        lengths.insert(0, self.length)
        batches = []
        for length in lengths:
            sizes = {name: (SAMPLES, *size[1:]) for name, size in sizes_at(graphs[0], length).items()}
            probe = memory_budget.draw(graphs[0], sizes, seed=self.options.seed, domains=domains)
            batches.append(probe.inputs)
        for length, (a, b) in zip(lengths, outputs_of_both(self.assessment, batches), strict=True):
            if a is not None and b is not None:
                if not agree(self.assessment, a, b):
                    # the nets agree when they are traced: if not at this length, the code has changed since
                    self.apart = length if self.reached else None
                    return
                self.reached = length
            elif (a is None) != (b is None) and self.refused is None and self.reached:
                takes, refuses = ("B", "A") if a is None else ("A", "B")
                reason = f"{takes} takes them, {refuses} does not"
                self.refused = f"sequences of {length:,}", reason, self._is_most(length - 1, takes)

    def pad(self) -> None:
        """Run both nets with padding before the tokens and a mask that they were traced without.

        A net whose mask is of that kind gives the tokens what it gives them without padding, positions
        counted from the first of them. If neither net does, the mask may be of another kind.
        """
        graphs, mappings = sources(self.assessment), self.assessment.candidate.mappings
        traces = [graph.trace for graph in graphs]
        if self.length <= PADDING or any(trace is None or MASK not in trace.left_out for trace in traces):
            return
        sizes = {name: (SAMPLES, *size[1:]) for name, size in sizes_at(graphs[0], self.length).items()}
        drawn = memory_budget.draw(
            graphs[0], sizes, seed=self.options.seed, domains=pair_domains(*graphs, mappings)
        ).inputs
        if len(drawn) != 1:
            return
        mask = np.ones((SAMPLES, self.length), np.int64)
        mask[:, :PADDING] = 0
        are_right = []
        for trace, given in zip(traces, (drawn, inputs_of_b(drawn, mappings)), strict=True):
            assert trace is not None
            ((name, tokens),) = given.items()
            batches = [
                {name: x, MASK: m} for x, m in ((tokens, mask), (tokens[:, PADDING:], mask[:, PADDING:]))
            ]
            try:
                padded, bare = trace.run(batches)
            except NetweaveError:
                return
            if padded is None or bare is None or padded[0][:, PADDING:].shape != bare[0].shape:
                return
            error = relative_error(bare[0], padded[0][:, PADDING:])
            are_right.append(error <= self.assessment.tolerance)
        self.is_padded = all(are_right)
        if are_right[0] != are_right[1]:
            right, wrong = "AB" if are_right[0] else "BA"
            reason = f"{right} gives the tokens after it what it gives them without it, {wrong} does not"
            self._miss(f"padding before the tokens, under {MASK}", reason, differs=True)

    def numbers(self) -> dict[int, str]:
        """Return the numbers of the code of both nets, with the name and the net."""
        numbers: dict[int, str] = {}
        for side, graph in zip("AB", sources(self.assessment), strict=True):
            for number, name in graph.trace.lengths.items() if graph.trace is not None else ():
                numbers.setdefault(number, f"{name} of {side}")
        return numbers

    def _is_most(self, length: int, side: str) -> bool:
        """Return whether a net says that it is made for sequences up to a length."""
        trace = sources(self.assessment)["AB".index(side)].trace
        return trace is not None and OF_MOST.search(trace.lengths.get(length, "").lower()) is not None

    def _lengths(self) -> list[int]:
        """Return lengths up to and beyond each number of the code, and one beyond all."""
        numbers = sorted(number for number in self.numbers() if self.length < number <= LONGEST)
        step = -(-2 * len(numbers) // MOST_LENGTHS) or 1
        lengths = {each for number in [*numbers[::step], *numbers[-1:]] for each in (number, number + 1)}
        lengths |= {2 * self.length + SIZE_STEP, max(numbers, default=self.length) + SIZE_STEP}
        cost = SAMPLES * max(sum(node_costs(graph).multiply_adds) for graph in sources(self.assessment))
        return sorted(each for each in lengths if cost * each / self.length <= COSTLY_MULTIPLY_ADDS)

    def lengths_of_steps(self) -> list[int]:
        """Return lengths a little beyond some numbers of the code, as far as they are no dear ones."""
        lengths = [each + STEPS_BEYOND for each in self._lengths() if each - 1 in self.numbers()]
        return lengths[:: -(-len(lengths) // MOST_LONGER_STEPS) or 1]

    def say_what_is_missing(self, *, is_run: bool) -> None:
        """Say which lengths were not reached, and which inputs were not given."""
        graphs = zip("AB", sources(self.assessment), strict=True)
        for side, graph in reversed(list(graphs)):  # each goes before the rest
            if graph.trace is not None and graph.trace.left_out:
                left = [
                    name
                    for name in graph.trace.left_out
                    if (graph.trace.steps is None or not OF_CACHE.search(name))
                    and not (self.is_padded and name == MASK)
                ]
                if left:
                    self._miss(", ".join(left), f"left out of the inputs of {side}", is_limit=True)
        if self.refused is not None:
            setting, reason, is_stated = self.refused
            self._miss(setting, reason, differs=not is_stated, is_limit=is_stated)
        if self.apart is not None:
            self._miss(f"sequences of {self.apart:,}", "what the code computes of them differs", differs=True)
        if self.is_padded:
            probes = (*self.assessment.probes, f"padding before the tokens, under {MASK}")
            self.assessment = replace(self.assessment, probes=probes)
        if self.reached > self.length:
            probes = (*self.assessment.probes, f"sequences of up to {self.reached:,}")
            self.assessment = replace(self.assessment, probes=probes)
            beyond = {n: name for n, name in self.numbers().items() if n > max(self.reached, LONGEST)}
            spoken = [f"{name} is {n:,}" for n, name in sorted(beyond.items()) if not UNSPOKEN.search(name)]
            if spoken:
                self._miss(f"sequences beyond {self.reached:,}", ", ".join(spoken[:2]), is_limit=True)
        elif is_run and not self.reached:  # if both take no other length, nothing is missing
            self._miss("sequences of another length", f"only of {self.length:,}", is_limit=True)

    def _miss(self, setting: str, reason: str, *, differs: bool = False, is_limit: bool = False) -> None:
        missed = Unexercised(setting, "", reason, differs=differs, is_limit=is_limit)
        self.assessment = self.assessment.missing(missed)


def on_longer_sequences(
    assessment: Assessment, options: CompareOptions, log: StageLog
) -> tuple[Assessment, tuple[Graph, Graph] | None]:
    """Run nets of code that are equal on longer sequences, and say what they were not run on.

    Code may decide by the length that it is traced with, and what it computes of it is a constant of the
    graph. So the code itself is run, with sequences longer than the numbers that it has: windows, tables of
    positions, lengths of a training. Where the outputs differ, it is traced again.

    Args:
        assessment: What was found at the length that the nets were read with.
        options: What the caller chose.
        log: Takes times.

    Returns:
        The assessment, and both nets at a length at which their outputs differ; None if they do not.
    """
    a, b = assessment.pair.a.source, assessment.pair.b.source
    if (a.trace is None and b.trace is None) or not assessment.is_equal:
        return assessment, None
    lengths = {length for graph in (a, b) if (length := _length(graph)) is not None}
    search = _Longer(assessment, max(lengths, default=0), options)
    is_run = len(lengths) == 1 and options.inputs is None and not options.one_size
    nets: list[Graph | None] = []
    if is_run and not assessment.pair.completion.weights_copied:
        with log.stage("check longer sequences"):
            search.run()
            search.pad()
            nets = [at_length(net, search.apart) for net in (a, b)] if search.apart else []
    search.say_what_is_missing(is_run=is_run)
    apart = (nets[0], nets[1]) if nets and nets[0] is not None and nets[1] is not None else None
    return search.assessment, apart


def _length(graph: Graph) -> int | None:
    """Return the length of the sequences of integers that a net takes; None if it is open or has none."""
    for value in graph.inputs:
        sizes = memory_budget.base_sizes(graph)[str(value.name)]
        is_number = value.dtype is not None and value.dtype.numpy().kind in "iu"
        if is_number and len(sizes) == 2 and sizes[1] is not None:
            return sizes[1]
    return None


def sizes_at(graph: Graph, length: int) -> dict[str, tuple[int, ...]]:
    """Return the sizes of a net's inputs with one sample and sequences of a length.

    Of an input with more than two axes, only a square is taken for one of a sequence's steps.
    """
    old = _length(graph)
    sizes = {}
    for name, own in memory_budget.base_sizes(graph).items():
        size = [1, *(length if each is None else each for each in own[1:])]
        if len(size) == 2 and size[1] == old:
            size[1] = length
        elif len(size) > 2 and size[-2:] == [old, old]:
            size[-2:] = [length, length]
        sizes[name] = tuple(size)
    return sizes


def at_length(graph: Graph, length: int) -> Graph | None:
    """Return a net for sequences of a length; None if it does not take them."""
    if graph.trace is None:
        return graph
    try:
        traced = graph.trace.again(sizes_at(graph, length))
    except NetweaveError:
        return None
    traced.trace = None
    return traced


def on_single_steps(assessment: Assessment, options: CompareOptions, log: StageLog) -> Assessment:
    """Run decoders that are equal one token at a time through their caches, each against one pass of its own.

    A net whose steps give something else than its pass is different from one whose steps do not, or that has
    no cache.

    Args:
        assessment: What was found for one pass over all tokens.
        options: What the caller chose.
        log: Takes times.
    """
    graphs = sources(assessment)
    if not assessment.is_equal or not any(graph.trace is not None and graph.trace.steps for graph in graphs):
        return assessment
    length = next((each for graph in graphs if (each := _length(graph)) is not None), None)
    if length is None or options.inputs is not None or assessment.pair.completion.weights_copied:
        missed = Unexercised("single steps through a cache", "", "not run with these inputs", is_limit=True)
        return assessment.missing(missed)
    with log.stage("check steps through caches"):
        a, b = _steps_of_both(assessment, length, options)
    if a is not None and b is not None and a.step is not None and b.step is not None:
        reason = f"in both nets, they give something else than one pass; in A: {a.cause}"
        return assessment.missing(Unexercised("single steps through the caches", "", reason, differs=True))
    right = []
    for side, steps in (("A", a), ("B", b)) if a is not None or b is not None else ():
        if steps is None or steps.reason:
            others = f"{side} takes none; those of {'B' if side == 'A' else 'A'} were run"
            reason = others if steps is None else f"{steps.how} of {side}: {steps.reason}"
            missed = Unexercised("single steps through a cache", "", reason, is_limit=True)
            assessment = assessment.missing(missed)
        elif steps.step is not None:
            assessment = _apart(assessment, side, steps)
        else:
            right.append(f"{side}'s {steps.how}")
            if steps.at_once:
                reason = f"other than one pass, by {ratio_text(steps.at_once)} of the rms"
                setting = f"several tokens at once through the filled {steps.how} of {side}"
                assessment = assessment.missing(Unexercised(setting, "", reason, differs=True))
    if right:
        probe = f"single steps through {' and '.join(right)}"
        assessment = replace(assessment, probes=(*assessment.probes, probe))
    return assessment


def _steps_of_both(assessment: Assessment, length: int, options: CompareOptions) -> list[CachedSteps | None]:
    """Return what both nets compute step by step; None for one that has no cache."""
    graphs, mappings = sources(assessment), assessment.candidate.mappings
    domains = pair_domains(*graphs, mappings)
    search = _Longer(assessment, length, options)
    lengths = [length, *search.lengths_of_steps()]
    batches = []
    for each in lengths:
        sizes = {name: (SAMPLES, *size[1:]) for name, size in sizes_at(graphs[0], each).items()}
        batches.append(memory_budget.draw(graphs[0], sizes, seed=options.seed, domains=domains).inputs)
    given = ([dict(batch) for batch in batches], [inputs_of_b(batch, mappings) for batch in batches])

    for of_net in given if any(probe.endswith(MASK) for probe in assessment.probes) else ():
        for batch in of_net:  # the first of a sample's tokens are padding
            mask = np.ones(next(iter(batch.values())).shape[:2], np.int64)
            mask[1:, :PADDING] = 0
            batch[MASK] = mask

    def steps_of(side: int) -> CachedSteps | None:
        trace = graphs[side].trace
        steps = trace.steps(given[side], assessment.tolerance) if trace is not None and trace.steps else None
        return steps if steps is not None and steps.how else None

    if all(graph.trace is not None and graph.trace.is_apart for graph in graphs):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(steps_of, range(2)))
    return [steps_of(side) for side in range(2)]


def _apart(assessment: Assessment, side: str, steps: CachedSteps) -> Assessment:
    """Return the assessment with the finding that a net's steps are not its pass."""
    groups = list(assessment.groups)
    at = next((i for i, group in enumerate(groups) if _is_within(group, side, steps.place)), len(groups) - 1)
    layers = (groups[at].layers_a or groups[at].layers_b) if side == "A" else groups[at].layers_b
    name = steps.place or (layers[0] if layers else side)
    finding = Finding(None, steps.cause, error=steps.error)
    if side == "A":
        finding = replace(finding, layer_a=name, place_a=steps.line)
    else:
        finding = replace(finding, layer_b=name, place_b=steps.line)
    groups[at] = replace(groups[at], status=Status.DIFFERENT, finding=finding, error=steps.error)
    apart = f"differ from one pass by {ratio_text(steps.error)} of the rms"
    calls = "several tokens at once, after others," if steps.at_once else "single steps"
    reason = f"{calls} through {steps.how} of {side} {apart}"
    known = assessment.agreement or Agreement(groups)
    agreement = replace(known, groups=groups, hidden=[groups[at]], reason=reason)
    return replace(assessment, groups=groups, agreement=agreement)


def _is_within(group: Group, side: str, place: str) -> bool:
    layers = group.layers_a if side == "A" else group.layers_b
    return any(f"{key}.".startswith(f"{place}.") for key in layers) if place else False
