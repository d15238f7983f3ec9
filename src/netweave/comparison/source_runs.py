"""Runs of nets as they were read, not in the form in which they are compared.

That form takes things for granted, such as what a mask holds, and a graph of code has what code makes of one
length. What nets compute where that does not hold, only they themselves show.

An integer input is a mask by its name, or since ``1 - x`` is computed of it, and positions by its name.
Inputs are drawn so, and tests of a mask have one form (``graph.passes.mask_forms``): nets that are equal may
differ on other integers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.input_domains import pair_domains
from netweave.comparison.execution.sizes import declared_sizes
from netweave.comparison.metric import relative_error
from netweave.comparison.result.comparison import Unexercised
from netweave.errors import NetweaveError, RunError
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.comparison.assessment import Assessment
    from netweave.comparison.execution.inputs import InputMapping
    from netweave.comparison.pipeline import CompareOptions, StageLog
    from netweave.graph import Graph

    Inputs = Mapping[str, np.ndarray]
    Outputs = list[np.ndarray] | None


def inputs_of_b(inputs: Inputs, mappings: Sequence[InputMapping]) -> dict[str, np.ndarray]:
    """Return what B is given where A is given some inputs, by name."""
    changes = [mapping.tensor_mapping(inputs[mapping.a].shape) for mapping in mappings]
    return {change.b: change.apply(inputs[change.a]) for change in changes}


def outputs_of_both(assessment: Assessment, batches: Sequence[Inputs]) -> list[tuple[Outputs, Outputs]]:
    """Return what A and B compute of each batch of A's inputs; None where a net does not take it.

    Nets that are run by processes of their own are run at the same time.
    """
    graphs = sources(assessment)
    mappings = assessment.candidate.mappings
    both = (batches, [inputs_of_b(batch, mappings) for batch in batches])
    if all(graph.trace is not None and graph.trace.is_apart for graph in graphs):
        with ThreadPoolExecutor(2) as pool:
            made = list(pool.map(_outputs, graphs, both))
    else:
        made = list(map(_outputs, graphs, both))
    return list(zip(*made, strict=True))


def sources(assessment: Assessment) -> tuple[Graph, Graph]:
    """Return both nets as they were read."""
    return assessment.pair.a.source, assessment.pair.b.source


def agree(assessment: Assessment, a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    """Return whether outputs agree, of those that were compared before."""
    graph_a, graph_b = sources(assessment)
    values_a = dict(zip([str(value.name) for value in graph_a.outputs], a, strict=False))
    values_b = dict(zip([str(value.name) for value in graph_b.outputs], b, strict=False))
    for pair in assessment.outputs:
        if pair.a not in values_a or pair.b not in values_b:
            continue
        x = values_a[pair.a] if pair.mapping is None else pair.mapping.apply(values_a[pair.a])
        y = values_b[pair.b]
        if x.shape != y.shape or not relative_error(x, y) <= assessment.tolerance:
            return False
    return True


def _outputs(graph: Graph, batches: Sequence[Inputs]) -> list[Outputs]:
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


KINDS = {"mask": "other than 0 and 1", "positions": "that do not count up from 0"}
"""Kinds of inputs, each with the words for the values that it does not hold."""

NUM_TRIES = 3
"""Batches: with integers below 0, without, and without large ones, which are too large for some tables."""

SAMPLES = 2
"""Samples of each batch."""


def on_other_integers(assessment: Assessment, options: CompareOptions, log: StageLog) -> Assessment:
    """Run nets that are equal on other integers than masks and positions hold, and say where they differ.

    Args:
        assessment: What was found on masks of zeros and ones, and on positions that count up.
        options: What the caller chose.
        log: Takes times.
    """
    if not assessment.is_equal or assessment.pair.completion.weights_copied:
        return assessment
    graphs, mappings = sources(assessment), assessment.candidate.mappings
    domains = pair_domains(*graphs, mappings)
    kinds = {name: domain.kind for name, domain in domains.items() if domain.kind in KINDS}
    if not kinds:
        return assessment
    inputs = options.inputs
    if inputs is None:
        sizes = declared_sizes(*graphs, mappings, num_samples=SAMPLES)
        inputs = memory_budget.draw(graphs[0], sizes, seed=options.seed, domains=domains).inputs
    generator = np.random.default_rng(options.seed)
    for name, kind in kinds.items():
        if inputs[name].dtype.kind not in "iu":
            continue  # B alone takes integers, and A what they stand for
        batches = [{**inputs, name: _drawn(inputs[name], kind, at, generator)} for at in range(NUM_TRIES)]
        with log.stage("check other integers"):
            reason = _difference(assessment, outputs_of_both(assessment, batches))
        if reason:
            values = f"values of {name!r} {KINDS[kind]}"
            assessment = assessment.missing(Unexercised(values, "", reason, differs=True))
    return assessment


def _drawn(like: np.ndarray, kind: str, number: int, generator: np.random.Generator) -> np.ndarray:
    """Return an array of integers, as far as its type holds them, for one of the batches."""
    if kind == "mask":
        values = np.array([-1, 0, 1, 2, 3, 100] if number < 2 else [0, 1, 2])
    else:
        length = like.shape[-1] if like.ndim else 1
        values = np.arange(-3, 2 * length if number < 2 else length)
    least = 0 if number else max(np.iinfo(like.dtype).min, -3)
    held = values[(values >= least) & (values <= np.iinfo(like.dtype).max)]
    drawn: np.ndarray = generator.choice(held, like.shape).astype(like.dtype)
    return drawn


def _difference(assessment: Assessment, computed: Sequence[tuple[Outputs, Outputs]]) -> str:
    """Say how what both nets compute of the batches differs; nothing if it does not.

    Of integers below 0, which count from the end of a table in ONNX and are none of its places in PyTorch,
    only outputs say anything.
    """
    for number, (a, b) in enumerate(computed):
        if a is not None and b is not None and not agree(assessment, a, b):
            return "the nets differ on them"
        if (a is None) != (b is None) and number:
            return f"{'B' if a is None else 'A'} takes them, {'A' if a is None else 'B'} does not"
    return ""
