"""From a Graph to steps: nodes as expressions, convolutions joined with their normalisation."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from netweave.files.source_code.blocks import without_identities, write_steps
from netweave.files.source_code.forward import Field, Module, Step
from netweave.formats.pytorch.source.operators import TABLE
from netweave.formats.pytorch.source.table import PyTorchNode
from netweave.graph import Graph

CONV_NORM = "ConvNorm"
"""The module that the written file defines for a convolution with its normalisation."""

MIN_CONV_NORMS = 6
"""So many of them are worth a class of their own."""


def steps_of(graph: Graph) -> list[Step]:
    """Return a net's nodes as steps, in their order.

    Raises:
        UnsupportedError: Some cannot be written; each kind is named once, with the reason.
    """
    steps = write_steps(graph, TABLE, PyTorchNode, "PyTorch source")
    return _joined(without_identities(steps, graph))


def _joined(steps: list[Step]) -> list[Step]:
    """Return the steps with a two-dimensional convolution and its normalisation as one, if there are many."""
    uses = Counter(name for step in steps for name in step.inputs)
    makers = {step.outputs[0]: step for step in steps}
    pairs: dict[int, Step] = {}
    for step in steps:
        conv = makers.get(step.inputs[0]) if _is(step, "nn.BatchNorm2d") else None
        if conv and _is(conv, "nn.Conv2d") and uses[conv.outputs[0]] == 1:
            pairs[id(step)] = conv
    if len(pairs) < MIN_CONV_NORMS:
        return steps
    gone = {id(conv) for conv in pairs.values()}
    return [
        _conv_norm(pairs[id(step)], step) if id(step) in pairs else step
        for step in steps
        if id(step) not in gone
    ]


def _is(step: Step, kind: str) -> bool:
    return step.module is not None and step.module.type == kind


def _conv_norm(conv: Step, norm: Step) -> Step:
    assert conv.module is not None
    assert norm.module is not None
    fields = [
        replace(field, default=False) if field.name == "bias" else field for field in conv.module.fields
    ]
    more = [Field(field.name, field.value, field.default) for field in norm.module.fields[1:]]
    state = {f"conv.{name}": array for name, array in conv.module.state.items()}
    state |= {f"norm.{name}": array for name, array in norm.module.state.items()}
    return replace(
        conv,
        layers=tuple(dict.fromkeys(conv.layers + norm.layers)),
        outputs=norm.outputs,
        module=Module(CONV_NORM, (*fields, *more), state),
    )
