"""Steps that nothing needs, or that pass on what comes in, are taken out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.source_code.steps import Step
    from netweave.graph import Graph


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
