"""LSTM, GRU and RNN as PyTorch's modules: gates in another order, the batch first where the net has it so.

T steps, N examples, I inputs, H hidden units, D directions, G gates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.sequences import batch_first, by_batch, joined
from netweave.files.source_code.steps import Field, Module, Step
from netweave.formats.pytorch.source.table import PyTorchNode, writes

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
"""PyTorch's gates in their order, by their number in ONNX: i o f c, and z r h."""

_ACTIVATIONS = {"LSTM": ["sigmoid", "tanh", "tanh"], "GRU": ["sigmoid", "tanh"], "RNN": ["tanh"]}

_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""


@writes("LSTM", "GRU", "RNN")
def recurrent(node: PyTorchNode) -> list[Step]:
    """One layer, of one direction or of both."""
    kind, hidden = node.op_type, int(node.get("hidden_size"))
    direction = node.get("direction", "forward")
    _check(node, kind)
    nonlinearity = _nonlinearity(node, kind, 2 if direction == "bidirectional" else 1)
    source = batch_first(node.ir_node) if direction != "reverse" else None
    fields: tuple[Field, ...] = (
        Field("input_size", node.shape(1)[2]),
        Field("hidden_size", hidden),
        Field("nonlinearity", nonlinearity, "tanh"),
        Field("bias", node.has(3), True),
        Field("batch_first", source is not None, False),
        Field("bidirectional", direction == "bidirectional", False),
    )
    if kind != "RNN":
        fields = tuple(field for field in fields if field.name != "nonlinearity")
    module = Module(f"nn.{kind}", fields, _state(node, kind))
    states = [index for index in _STATES if node.has(index)]
    given = ", ".join(f"{{{place}}}" for place in range(1, 1 + len(states)))
    given = f", ({given})" if kind == "LSTM" and given else f", {given}" if given else ""
    x = "{0}.flip(0)" if direction == "reverse" else "{0}"
    made = node.step(f"{{m}}({x}{given})", inputs=[0, *states], module=module)
    if source is not None:
        made = replace(made, inputs=(source.name or "", *made.inputs[1:]))
    return _outputs(node, made, kind, is_batch_first=source is not None)


def _check(node: PyTorchNode, kind: str) -> None:
    """Refuse what PyTorch's modules have not."""
    reasons = {
        "its gates reset before the product, and PyTorch's behind it (linear_before_reset)": kind == "GRU"
        and not node.get("linear_before_reset", 0),
        "its sequences have lengths": node.has(4),
        "it has peepholes": node.has(7),
        "it has the batch first by its layout": node.get("layout", 0) != 0,
        "its gates are clipped or coupled": "clip" in node.attributes or bool(node.get("input_forget", 0)),
        "one of its first states is left out": kind == "LSTM" and node.has(5) != node.has(6),
    }
    for reason, applies in reasons.items():
        if applies:
            raise NotWritable(reason)


def _nonlinearity(node: PyTorchNode, kind: str, num_directions: int) -> str:
    given = [name.lower() for name in node.get("activations") or _ACTIVATIONS[kind] * num_directions]
    if kind == "RNN" and set(given) in ({"relu"}, {"tanh"}):
        return given[0]
    if given != _ACTIVATIONS[kind] * num_directions:
        raise NotWritable(f"its activations are {', '.join(given)}")
    return "tanh"


def _state(node: PyTorchNode, kind: str) -> dict[str, Callable[[], np.ndarray]]:
    state: dict[str, Callable[[], np.ndarray]] = {}
    for number, end in enumerate(("", "_reverse")[: node.shape(1)[0] or 1]):
        state[f"weight_ih_l0{end}"] = _reordered(node, kind, 1, number)
        state[f"weight_hh_l0{end}"] = _reordered(node, kind, 2, number)
        if node.has(3):
            state[f"bias_ih_l0{end}"] = _reordered(node, kind, 3, number, half=0)
            state[f"bias_hh_l0{end}"] = _reordered(node, kind, 3, number, half=1)
    return state


def _reordered(
    node: PyTorchNode, kind: str, index: int, direction: int, half: int | None = None
) -> Callable[[], np.ndarray]:
    """Return a function that gives the weights of a direction with PyTorch's order of gates."""
    array, gates = node.lazy_array(index), _GATES[kind]

    def rows() -> np.ndarray:
        mine = array()[direction]
        if half is not None:
            mine = np.split(mine, 2)[half]
        parts = np.split(mine, len(gates))
        return np.concatenate([parts[gate] for gate in gates])

    return rows


def _outputs(node: PyTorchNode, made: Step, kind: str, *, is_batch_first: bool) -> list[Step]:
    """Return the call and the steps that take ONNX's outputs from what it gives: a sequence and states."""
    used = [bool(value.uses()) or value.is_graph_output() for value in node.outputs]
    sequence, state = f"{made.outputs[0]}/sequence", f"{made.outputs[0]}/state"
    names = [value.name or "" for value in node.outputs]
    if used[0] and not any(used[1:]):
        steps = [replace(made, template=f"{made.template}[0]", outputs=(sequence,))]
    elif not used[0]:
        steps = [replace(made, template=f"{made.template}[1]", outputs=(state,))]
    else:
        steps = [replace(made, outputs=(sequence, state))]
    if used[0]:
        steps.append(_sequence(node, sequence, is_batch_first=is_batch_first))
    for number, name in enumerate(names[1:]):
        if used[number + 1]:
            template = f"{{0}}[{number}]" if kind == "LSTM" else "{0}"
            steps.append(replace(made, template=template, inputs=(state,), outputs=(name,), module=None))
    return steps


def _sequence(node: PyTorchNode, sequence: str, *, is_batch_first: bool) -> Step:
    """Return ONNX's (T, D, N, H) from PyTorch's sequence, or what the net makes of it, where it is that."""
    output, direction = node.outputs[0], node.get("direction", "forward")
    hidden = int(node.get("hidden_size"))
    columns = hidden * (2 if direction == "bidirectional" else 1)
    turned = by_batch(output, columns)
    if is_batch_first and turned is not None:
        return _step(node, "{0}", sequence, turned)
    template = "{0}.flip(0)" if direction == "reverse" else "{0}"
    if is_batch_first:
        template = "{0}.transpose(0, 1)"
    plain = joined(output, columns)
    if plain is not None:
        return _step(node, template, sequence, plain)
    if direction == "bidirectional":
        return _step(node, f"{template}.unflatten(2, (2, {hidden})).transpose(1, 2)", sequence, output)
    return _step(node, f"{template}.unsqueeze(1)", sequence, output)


def _step(node: PyTorchNode, template: str, sequence: str, value: ir.Value) -> Step:
    return Step(node.op_type, node.layers, template, (sequence,), (value.name or "",))
