"""From a Graph to steps of Keras."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from netweave.files.source_code.blocks import needed, without_identities, write_steps
from netweave.files.source_code.forward import Step
from netweave.formats.keras.source.layouts import channels_last_values
from netweave.formats.keras.source.operators import TABLE
from netweave.formats.keras.source.table import KerasNode
from netweave.graph import Graph

_KEPT = re.compile(r"layers\.Global(Average|Max)Pooling[123]D\(keepdims=True\)\(\{0\}\)")


def steps_of(graph: Graph) -> list[Step]:
    """Return a net's nodes as steps, in their order.

    Raises:
        UnsupportedError: Some cannot be written; each kind is named once, with the reason.
    """
    make_node = partial(KerasNode, channels_last=channels_last_values(graph))
    steps = write_steps(graph, TABLE, make_node, "Keras source")
    steps = without_identities(needed(_without_turns(steps), graph), graph)
    return _without_flattens(steps, [value.name or "" for value in graph.outputs])


_TURN = "ops.transpose({0}, (1, 0, 2))"
"""A sequence with its steps first, or with them second again."""


def _without_turns(steps: Sequence[Step]) -> list[Step]:
    """Return the steps without sequences turned and turned back, as they are between recurrent layers."""
    turned = {step.outputs[0]: step.inputs[0] for step in steps if step.template == _TURN}
    return [
        replace(step, template="{0}", inputs=(turned[step.inputs[0]],))
        if step.template == _TURN and step.inputs[0] in turned
        else step
        for step in steps
    ]


def _without_flattens(steps: Sequence[Step], outputs: Sequence[str]) -> list[Step]:
    """Return the steps with a global pooling and the flatten behind it as one."""
    uses = Counter(name for step in steps for name in step.inputs) + Counter(outputs)
    makers = {step.outputs[0]: step for step in steps}
    gone: set[int] = set()
    steps_kept: list[Step] = []
    for step in steps:
        pooling = makers.get(step.inputs[0])
        is_kept = pooling and _KEPT.fullmatch(pooling.template)
        if pooling and is_kept and step.template == "layers.Flatten()({0})" and uses[step.inputs[0]] == 1:
            gone.add(id(pooling))
            template = pooling.template.replace("keepdims=True", "")
            step = replace(pooling, template=template, outputs=step.outputs)
        steps_kept.append(step)
    return [step for step in steps_kept if id(step) not in gone]
