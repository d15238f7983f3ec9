"""LSTM, GRU and RNN as Keras's layers: batches first, gates in another order, one layer for each direction.

T steps, N examples, I inputs, H hidden units, D directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.sequences import batch_first, by_batch, first_state, joined, last_state
from netweave.files.source_code.steps import Field, Module, Step
from netweave.formats.keras.source.table import KerasNode, writes

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

_KINDS = {"LSTM": ("LSTM", "lstm_cell"), "GRU": ("GRU", "gru_cell"), "RNN": ("SimpleRNN", "simple_rnn_cell")}
"""Keras's layer, and what it calls the cell that has the arrays."""

_GATES = {"LSTM": (0, 2, 3, 1), "GRU": (0, 1, 2), "RNN": (0,)}
"""Keras's gates in their order (i f c o, and z r h) by their number in ONNX (i o f c)."""

_USUAL = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}

_ACTIVATIONS = {
    "Elu": "elu",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Softplus": "softplus",
    "Softsign": "softsign",
    "Tanh": "tanh",
}

_STATES = (5, 6)
"""The inputs that are first states: of the output, and of the cell."""

_ENDS = ("sequence", "state1", "state2")
"""What the values of a layer are called: all steps, and the last states."""

_VARIABLES = {
    "LSTM": ("x", "hidden", "cell"),
    "GRU": ("x", "state"),
    "RNN": ("x", "state"),
}

_WAYS = {"forward": ("",), "reverse": ("",), "bidirectional": ("_forward", "_backward")}


@dataclass(frozen=True, slots=True)
class _Way:
    """One direction: what the layer's name ends with, and whether it begins at the last step."""

    number: int
    suffix: str
    is_backward: bool


@writes("LSTM", "GRU", "RNN")
def recurrent(node: KerasNode) -> list[Step]:
    """A layer for each direction, and what the net reads of what they give."""
    _check(node)
    direction = node.get("direction", "forward")
    ways = [
        _Way(number, suffix, is_backward=direction == "reverse" or number == 1)
        for number, suffix in enumerate(_WAYS[direction])
    ]
    given = batch_first(node.ir_node)
    source = (given if given is not None else node.value(0)).name or ""
    steps = []
    if given is None:
        turned = f"{node.outputs[0].name or node.ir_node.name}/batches"
        steps = [Step("", node.layers, "ops.transpose({0}, (1, 0, 2))", (source,), (turned,))]
        source = turned
    steps += [step for way in ways for step in _layer(node, way, source)]
    for number, is_used in enumerate(_used(node)):
        if is_used:
            made = [f"{_name(node, way)}/{_ENDS[number]}" for way in ways]
            steps.append(_state(node, number, made) if number else _sequence(node, made))
    return steps


def _check(node: KerasNode) -> None:
    """Refuse what Keras's layers have not."""
    reasons = {
        "its sequences have lengths": node.has(4),
        "it has peepholes": node.has(7),
        "it has the batch first by its layout": node.get("layout", 0) != 0,
        "its gates are clipped or coupled": "clip" in node.attributes or bool(node.get("input_forget", 0)),
        "one of its first states is left out": node.op_type == "LSTM" and node.has(5) != node.has(6),
    }
    for reason, applies in reasons.items():
        if applies:
            raise NotWritable(reason)


def _used(node: KerasNode) -> list[bool]:
    return [bool(value.uses()) or value.is_graph_output() for value in node.outputs]


def _name(node: KerasNode, way: _Way) -> str:
    return f"{node.outputs[0].name or node.ir_node.name}{way.suffix}"


def _layer(node: KerasNode, way: _Way, source: str) -> list[Step]:
    """Return the layer of a direction; its sequence, the batch first, is in the order of the steps."""
    kind, used = node.op_type, _used(node)
    states = [index for index in _STATES if node.has(index)]
    if any(node.is_stored(index) for index in states):
        raise NotWritable("its first states are stored, expected inputs of the net")
    given = ", ".join(_first_state(node, index, way, place) for place, index in enumerate(states, start=1))
    more = f", initial_state=[{given}]" if len(states) > 1 else f", initial_state={given}" if states else ""
    inputs = [source, *(_state_name(node, index) for index in states)]
    sequence, *last = [f"{_name(node, way)}/{end}" for end in _ENDS]
    outputs = [f"{sequence}/turned" if way.is_backward else sequence]
    if any(used[1:]):
        outputs += last[: 2 if kind == "LSTM" else 1]
    step = Step(
        name=f"{node.layers[0] if node.layers else node.ir_node.name or kind}{way.suffix}",
        layers=node.layers,
        template=f"{{m}}({{0}}{more})",
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        module=Module(f"layers.{_KINDS[kind][0]}", _fields(node, way, used), _arrays(node, way)),
        variables=_VARIABLES[kind] if len(outputs) > 1 else (),
    )
    if not way.is_backward or not used[0]:
        return [step]
    turned = Step(step.name, node.layers, "ops.flip({0}, axis=1)", (outputs[0],), (sequence,))
    return [step, turned]


def _fields(node: KerasNode, way: _Way, used: list[bool]) -> tuple[Field, ...]:
    kind = node.op_type
    gates, own = _activations(node, way)
    fields = [
        Field("units", int(node.get("hidden_size"))),
        Field("activation", own, "tanh"),
        Field("recurrent_activation", gates, "sigmoid"),
        Field("use_bias", node.has(3), True),
        Field("return_sequences", used[0], False),
        Field("return_state", any(used[1:]), False),
        Field("go_backwards", way.is_backward, False),
        Field("reset_after", bool(node.get("linear_before_reset", 0)), True),
    ]
    left_out = {"LSTM": {"reset_after"}, "GRU": set(), "RNN": {"reset_after", "recurrent_activation"}}[kind]
    return tuple(field for field in fields if field.name not in left_out)


def _activations(node: KerasNode, way: _Way) -> tuple[str, str]:
    """Return Keras's activations of the gates and of all else."""
    kind = node.op_type
    count = len(_USUAL[kind])
    given = list(node.get("activations") or _USUAL[kind] * (way.number + 1))
    mine = [name.capitalize() for name in given[way.number * count : (way.number + 1) * count]]
    unknown = [name for name in mine if name not in _ACTIVATIONS]
    if unknown or len(set(mine[1:] if kind != "RNN" else mine)) > 1 or "activation_alpha" in node.attributes:
        raise NotWritable(f"its activations are {', '.join(mine)}")
    return _ACTIVATIONS[mine[0]], _ACTIVATIONS[mine[-1]]


def _first_state(node: KerasNode, index: int, way: _Way, place: int) -> str:
    is_flat = len(_WAYS[node.get("direction", "forward")]) == 1 and first_state(node.value(index)) is not None
    return f"{{{place}}}" if is_flat else f"{{{place}}}[{way.number}]"


def _state_name(node: KerasNode, index: int) -> str:
    flat = first_state(node.value(index)) if node.get("direction", "forward") != "bidirectional" else None
    return (flat if flat is not None else node.value(index)).name or ""


def _arrays(node: KerasNode, way: _Way) -> dict[str, Callable[[], np.ndarray]]:
    cell = _KINDS[node.op_type][1]
    state = {
        f"{cell}/kernel": _gates(node, 1, way),
        f"{cell}/recurrent_kernel": _gates(node, 2, way),
    }
    return state | ({f"{cell}/bias": _bias(node, way)} if node.has(3) else {})


def _gates(node: KerasNode, index: int, way: _Way) -> Callable[[], np.ndarray]:
    """Return a function that gives a matrix with Keras's order of gates as columns."""
    array, gates = node.lazy_array(index), _GATES[node.op_type]

    def columns() -> np.ndarray:
        parts = np.split(array()[way.number], len(gates))
        return np.concatenate([parts[gate] for gate in gates]).T

    return columns


def _bias(node: KerasNode, way: _Way) -> Callable[[], np.ndarray]:
    """Return a function that gives Keras's bias: one of the sum, or both where the reset is after."""
    array, gates = node.lazy_array(3), _GATES[node.op_type]
    is_pair = bool(node.get("linear_before_reset", 0))

    def rows() -> np.ndarray:
        parts = array()[way.number].reshape(2, len(gates), -1)[:, list(gates)].reshape(2, -1)
        return np.asarray(parts if is_pair else parts.sum(axis=0))

    return rows


def _sequence(node: KerasNode, names: list[str]) -> Step:
    """Return ONNX's (T, D, N, H), or what the net makes of it, from (N, T, H) of each direction."""
    output, columns = node.outputs[0], len(names) * int(node.get("hidden_size"))
    both = "{0}" if len(names) == 1 else "layers.Concatenate()([{0}, {1}])"
    if (value := by_batch(output, columns)) is not None:
        return _made(node, both, names, value)
    if (value := joined(output, columns)) is not None:
        return _made(node, f"ops.transpose({both}, (1, 0, 2))", names, value)
    places = ", ".join(f"{{{place}}}" for place in range(len(names)))  # four axes have the last of D here
    stacked = f"ops.stack([{places}], axis=-1)" if len(names) > 1 else "ops.expand_dims({0}, -1)"
    return _made(node, f"ops.transpose({stacked}, (1, 0, 2, 3))", names, output)


def _state(node: KerasNode, number: int, names: list[str]) -> Step:
    """Return ONNX's (D, N, H), or what the net makes of it, from (N, H) of each direction."""
    output, columns = node.outputs[number], len(names) * int(node.get("hidden_size"))
    if (value := last_state(output, columns)) is not None:
        return _made(node, "{0}" if len(names) == 1 else "layers.Concatenate()([{0}, {1}])", names, value)
    template = "ops.expand_dims({0}, 0)" if len(names) == 1 else "ops.stack([{0}, {1}])"
    return _made(node, template, names, output)


def _made(node: KerasNode, template: str, names: list[str], value: ir.Value) -> Step:
    return Step(node.op_type, node.layers, template, tuple(names), (value.name or "",))
