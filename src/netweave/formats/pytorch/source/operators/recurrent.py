"""LSTM, GRU and RNN as PyTorch's modules: gates in another order, the batch first where the net has it so.

T steps, N examples, I inputs, H hidden units, D directions, G gates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from netweave.files.source_code.blocks import batch_first, by_batch, joined
from netweave.files.source_code.forward import Field, Module, Step
from netweave.formats.lowering.nodes.windows import FIRST_STATES, RecurrentNode
from netweave.formats.pytorch.source.table import PyTorchNode, writes


@writes("LSTM", "GRU", "RNN")
def recurrent(node: PyTorchNode) -> list[Step]:
    """One layer, of one direction or of both."""
    rnn = RecurrentNode(node, "cudnn", target="PyTorch", resets_after=True)
    rnn.require_all_states()
    kind = rnn.kind
    source = batch_first(node.ir_node) if rnn.direction != "reverse" else None
    fields: tuple[Field, ...] = (
        Field("input_size", node.shape(1)[2]),
        Field("hidden_size", rnn.hidden_size),
        Field("nonlinearity", rnn.nonlinearity(), "tanh"),
        Field("bias", node.has(3), True),
        Field("batch_first", source is not None, False),
        Field("bidirectional", rnn.num_directions == 2, False),
    )
    if kind != "RNN":
        fields = tuple(field for field in fields if field.name != "nonlinearity")
    module = Module(f"nn.{kind}", fields, _state(rnn))
    states = [index for index in FIRST_STATES if node.has(index)]
    given = ", ".join(f"{{{place}}}" for place in range(1, 1 + len(states)))
    given = f", ({given})" if kind == "LSTM" and given else f", {given}" if given else ""
    x = "{0}.flip(0)" if rnn.direction == "reverse" else "{0}"
    step = node.step(f"{{m}}({x}{given})", inputs=[0, *states], module=module)
    if source is not None:
        step = replace(step, inputs=(source.name or "", *step.inputs[1:]))
    return _outputs(rnn, step, is_batch_first=source is not None)


def _state(rnn: RecurrentNode) -> dict[str, Callable[[], np.ndarray]]:
    state: dict[str, Callable[[], np.ndarray]] = {}
    for number, end in enumerate(("", "_reverse")[: rnn.num_directions]):
        state[f"weight_ih_l0{end}"] = rnn.matrix(1, number)
        state[f"weight_hh_l0{end}"] = rnn.matrix(2, number)
        if rnn.node.has(3):
            state[f"bias_ih_l0{end}"] = rnn.bias(number, half=0)
            state[f"bias_hh_l0{end}"] = rnn.bias(number, half=1)
    return state


def _outputs(rnn: RecurrentNode, made: Step, *, is_batch_first: bool) -> list[Step]:
    """Return the call and the steps that take ONNX's outputs from what it gives: a sequence and states."""
    outputs = rnn.node.outputs
    used = [rnn.node.is_used(number) for number in range(len(outputs))]
    sequence, state = f"{made.outputs[0]}/sequence", f"{made.outputs[0]}/state"
    if used[0] and not any(used[1:]):
        steps = [replace(made, template=f"{made.template}[0]", outputs=(sequence,))]
    elif not used[0]:
        steps = [replace(made, template=f"{made.template}[1]", outputs=(state,))]
    else:
        steps = [replace(made, outputs=(sequence, state))]
    if used[0]:
        steps.append(_sequence(rnn, sequence, is_batch_first=is_batch_first))
    for number, value in enumerate(outputs[1:]):
        if used[number + 1]:
            template = f"{{0}}[{number}]" if rnn.kind == "LSTM" else "{0}"
            name = value.name or ""
            steps.append(replace(made, template=template, inputs=(state,), outputs=(name,), module=None))
    return steps


def _sequence(rnn: RecurrentNode, sequence: str, *, is_batch_first: bool) -> Step:
    """Return ONNX's (T, D, N, H) from PyTorch's sequence, or what the net makes of it, where it is that."""
    output = rnn.node.outputs[0]
    by_batch_value = by_batch(output, rnn.columns)
    if is_batch_first and by_batch_value is not None:
        return _step(rnn, "{0}", sequence, by_batch_value)
    template = "{0}.flip(0)" if rnn.direction == "reverse" else "{0}"
    if is_batch_first:
        template = "{0}.transpose(0, 1)"
    plain = joined(output, rnn.columns)
    if plain is not None:
        return _step(rnn, template, sequence, plain)
    if rnn.num_directions == 2:
        template = f"{template}.unflatten(2, (2, {rnn.hidden_size})).transpose(1, 2)"
        return _step(rnn, template, sequence, output)
    return _step(rnn, f"{template}.unsqueeze(1)", sequence, output)


def _step(rnn: RecurrentNode, template: str, sequence: str, value: ir.Value) -> Step:
    return Step(rnn.kind, rnn.node.layers, template, (sequence,), (value.name or "",))
