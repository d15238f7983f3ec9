"""Steps that nothing needs, or that pass on what comes in, are taken out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from netweave.files.node_writer import NotWritable, NotWritableNodes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import onnx_ir as ir

    from netweave.files.node_writer import WriterTable
    from netweave.files.source_code.node import SourceNode
    from netweave.files.source_code.steps import Step
    from netweave.graph import Graph


NodeT = TypeVar("NodeT", bound="SourceNode")


def write_steps(
    graph: Graph,
    table: WriterTable[NodeT, Step | list[Step]],
    make_node: Callable[[ir.Node, Graph], NodeT],
    target: str,
) -> list[Step]:
    """Return the steps of all nodes that an output of the graph needs once they are written, in their order.

    What only computes sizes, or a constant that stands in the constructor of a module, is not written.

    Raises:
        UnsupportedError: Some nodes cannot be written; each reason is named once.
    """
    read = {value.name for value in graph.outputs}
    written: list[list[Step]] = []
    reasons: dict[ir.Node, NotWritable] = {}
    for node in reversed(graph.nodes):
        if read.isdisjoint(value.name for value in node.outputs):
            continue
        try:
            result = table.find(node)(make_node(node, graph))
        except NotWritable as reason:
            reasons[node] = reason
            continue
        steps = result if isinstance(result, list) else [result]
        written.append(steps)
        read.update(name for step in steps for name in step.inputs)
    not_writable = NotWritableNodes(graph, target)
    for node in reversed(reasons):
        with not_writable.collecting(node):
            raise reasons[node]
    not_writable.check()
    return needed([step for steps in reversed(written) for step in steps], graph)


def needed(steps: Sequence[Step], graph: Graph) -> list[Step]:
    """Return the steps that make what an output needs; of two that make the same value, the first."""
    made: set[str] = set()
    firsts = []
    for step in steps:
        if not made.intersection(step.outputs):
            firsts.append(step)
        made.update(step.outputs)
    read = {value.name for value in graph.outputs}
    kept = []
    for step in reversed(firsts):
        if read.intersection(step.outputs):
            kept.append(step)
            read.update(step.inputs)
    return kept[::-1]


def without_identities(steps: Sequence[Step], graph: Graph) -> list[Step]:
    """Return the steps without those that pass on what comes in, unless an input goes straight out."""
    names = _named_like_outputs(steps, {value.name for value in graph.outputs})
    ends = {value.name for value in graph.outputs}
    kept: list[Step] = []
    for step in steps:
        inputs = tuple(names.get(name, name) for name in step.inputs)
        outputs = tuple(names.get(name, name) for name in step.outputs)
        if step.template == "{0}" and (outputs[0] not in ends or inputs[0] == outputs[0]):
            names[step.outputs[0]] = inputs[0]
        else:
            kept.append(replace(step, inputs=inputs, outputs=outputs))
    return kept


def _named_like_outputs(steps: Sequence[Step], ends: set[str | None]) -> dict[str, str]:
    """Return the output of the net that a value of a step is passed on as, by the value's name."""
    made = {name for step in steps if step.template != "{0}" for name in step.outputs} - ends
    passed = [step for step in steps if step.template == "{0}" and step.outputs[0] in ends]
    return {step.inputs[0]: step.outputs[0] for step in reversed(passed) if step.inputs[0] in made}
