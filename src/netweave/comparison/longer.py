"""Nets of code, which is traced with sequences of one length, on longer ones."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.sizes import SIZE_STEP
from netweave.comparison.metric import relative_error
from netweave.comparison.result.comparison import Unexercised
from netweave.errors import NetweaveError, RunError
from netweave.graph.costs import node_costs
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from netweave.comparison.assessment import Assessment
    from netweave.comparison.pipeline import CompareOptions, StageLog
    from netweave.graph import Graph

    Outputs = list[np.ndarray] | None

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
    """

    assessment: Assessment
    length: int
    options: CompareOptions
    reached: int = 0
    apart: int | None = None
    refused: tuple[str, str, bool] | None = None

    def run(self) -> None:
        """Run both nets at each length, the shorter ones first, until they differ."""
        graphs = self.graphs
        mappings = self.assessment.candidate.mappings
        domains = pair_domains(*graphs, mappings)
        lengths = self._lengths()
        if not lengths or any(graph.trace is None and _length(graph) is not None for graph in graphs):
            return  # too dear, or a file that is of one length
        lengths.insert(0, self.length)
        own, others = [], []
        for length in lengths:
            sizes = {name: (SAMPLES, *size[1:]) for name, size in sizes_at(graphs[0], length).items()}
            probe = memory_budget.draw(graphs[0], sizes, seed=self.options.seed, domains=domains)
            own.append(dict(probe.inputs))
            changes = [mapping.tensor_mapping(probe.inputs[mapping.a].shape) for mapping in mappings]
            others.append({change.b: change.apply(probe.inputs[change.a]) for change in changes})
        for length, a, b in zip(lengths, *_outputs_of_both(graphs, (own, others)), strict=True):
            if a is not None and b is not None:
                if not self._agree(a, b):
                    # the nets agree when they are traced: if not at this length, the code has changed since
                    self.apart = length if self.reached else None
                    return
                self.reached = length
            elif (a is None) != (b is None) and self.refused is None and self.reached:
                takes, refuses = ("B", "A") if a is None else ("A", "B")
                reason = f"{takes} takes them, {refuses} does not"
                self.refused = f"sequences of {length:,}", reason, self._is_most(length - 1, takes)

    @property
    def graphs(self) -> tuple[Graph, Graph]:
        """Both nets as they were read."""
        return self.assessment.pair.a.source, self.assessment.pair.b.source

    def numbers(self) -> dict[int, str]:
        """Return the numbers of the code of both nets, with the name and the net."""
        numbers: dict[int, str] = {}
        for side, graph in zip("AB", self.graphs, strict=True):
            for number, name in graph.trace.lengths.items() if graph.trace is not None else ():
                numbers.setdefault(number, f"{name} of {side}")
        return numbers

    def _is_most(self, length: int, side: str) -> bool:
        """Return whether a net says that it is made for sequences up to a length."""
        trace = self.graphs["AB".index(side)].trace
        return trace is not None and OF_MOST.search(trace.lengths.get(length, "").lower()) is not None

    def _lengths(self) -> list[int]:
        """Return lengths up to and beyond each number of the code, and one beyond all."""
        numbers = sorted(number for number in self.numbers() if self.length < number <= LONGEST)
        step = -(-2 * len(numbers) // MOST_LENGTHS) or 1
        lengths = {each for number in [*numbers[::step], *numbers[-1:]] for each in (number, number + 1)}
        lengths |= {2 * self.length + SIZE_STEP, max(numbers, default=self.length) + SIZE_STEP}
        cost = SAMPLES * max(sum(node_costs(graph).multiply_adds) for graph in self.graphs)
        return sorted(each for each in lengths if cost * each / self.length <= COSTLY_MULTIPLY_ADDS)

    def _agree(self, a: list[np.ndarray], b: list[np.ndarray]) -> bool:
        """Return whether outputs agree that agree when they are traced."""
        graph_a, graph_b = self.graphs
        values_a = dict(zip([str(value.name) for value in graph_a.outputs], a, strict=False))
        values_b = dict(zip([str(value.name) for value in graph_b.outputs], b, strict=False))
        for pair in self.assessment.outputs:
            if pair.a not in values_a or pair.b not in values_b:
                continue
            x = values_a[pair.a] if pair.mapping is None else pair.mapping.apply(values_a[pair.a])
            y = values_b[pair.b]
            if x.shape != y.shape or not relative_error(x, y) <= self.assessment.tolerance:
                return False
        return True

    def say_what_is_missing(self, *, is_run: bool) -> None:
        """Say which lengths were not reached, and which inputs were not given."""
        for side, graph in reversed(list(zip("AB", self.graphs, strict=True))):  # each goes before the rest
            if graph.trace is not None and graph.trace.left_out:
                names = ", ".join(graph.trace.left_out)
                self._miss(names, f"left out of the inputs of {side}", is_limit=True)
        if self.refused is not None:
            setting, reason, is_stated = self.refused
            self._miss(setting, reason, differs=not is_stated, is_limit=is_stated)
        if self.apart is not None:
            self._miss(f"sequences of {self.apart:,}", "what the code computes of them differs", differs=True)
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


def _outputs_of_both(
    graphs: Sequence[Graph], batches: Sequence[Sequence[dict[str, np.ndarray]]]
) -> list[list[Outputs]]:
    """Return what each net computes, at the same time if both are run by processes of their own."""
    if all(graph.trace is not None and graph.trace.is_apart for graph in graphs):
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(_outputs, graphs, batches))
    return list(map(_outputs, graphs, batches))


def _outputs(graph: Graph, batches: Sequence[dict[str, np.ndarray]]) -> list[Outputs]:
    """Return what a net computes of each batch; None where it does not take it."""
    if graph.trace is not None:
        try:
            return graph.trace.run(batches)
        except NetweaveError:
            return [None] * len(batches)
    outputs: list[Outputs] = []
    for batch in batches:
        try:
            computed = prepare(graph).run(batch)
        except RunError:
            outputs.append(None)
        else:
            outputs.append([computed[str(value.name)] for value in graph.outputs])
    return outputs
