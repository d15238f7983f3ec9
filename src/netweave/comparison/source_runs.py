"""Runs of nets as they were read, not in the form in which they are compared.

That form takes things for granted, such as what a mask holds, and a graph of code has what code makes of one
length. What nets compute where that does not hold, only they themselves show.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from netweave.comparison.metric import relative_error
from netweave.errors import NetweaveError, RunError
from netweave.runtime.backends import prepare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np

    from netweave.comparison.assessment import Assessment
    from netweave.comparison.execution.inputs import InputMapping
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
