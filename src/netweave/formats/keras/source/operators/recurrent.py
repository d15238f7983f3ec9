"""LSTM, GRU and RNN as Keras's layers: batches first, gates in another order, one layer for each direction.

T steps, N examples, I inputs, H hidden units, D directions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netweave.files.node_writer import GraphNode, NotWritable
from netweave.files.source_code.blocks import batch_first, by_batch, first_state, joined, last_state
from netweave.files.source_code.forward import Field, Module, Step
from netweave.formats.keras.source.table import KerasNode, writes
from netweave.formats.lowering.nodes.arrays import by_operator
from netweave.formats.lowering.nodes.windows import FIRST_STATES, RecurrentNode

_KINDS = {"LSTM": ("LSTM", "lstm_cell"), "GRU": ("GRU", "gru_cell"), "RNN": ("SimpleRNN", "simple_rnn_cell")}
"""Keras's layer, and what it calls the cell that has the arrays."""

_ACTIVATIONS = by_operator(("elu", "relu", "sigmoid", "softplus", "softsign", "tanh"))

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
    rnn = RecurrentNode(node, "keras", target="Keras", resets_after=False)
    rnn.require_all_states()
    ways = [
        _Way(number, suffix, is_backward=rnn.direction == "reverse" or number == 1)
        for number, suffix in enumerate(_WAYS[rnn.direction])
    ]
    given = batch_first(node.ir_node)
    source = (given if given is not None else node.value(0)).name or ""
    steps = []
    if given is None:
        turned = f"{node.outputs[0].name or node.ir_node.name}/batches"
        steps = [Step("", node.layers, "ops.transpose({0}, (1, 0, 2))", (source,), (turned,))]
        source = turned
    steps += [step for way in ways for step in _layer(rnn, way, source)]
    for number in range(len(node.outputs)):
        if node.is_used(number):
            made = [f"{_name(node, way)}/{_ENDS[number]}" for way in ways]
            steps.append(_state(node, number, made) if number else _sequence(node, made))
    return steps


def _name(node: GraphNode, way: _Way) -> str:
    return f"{node.outputs[0].name or node.ir_node.name}{way.suffix}"


def _layer(rnn: RecurrentNode, way: _Way, source: str) -> list[Step]:
    """Return the layer of a direction; its sequence, the batch first, is in the order of the steps."""
    node, kind = rnn.node, rnn.kind
    used = [node.is_used(number) for number in range(len(node.outputs))]
    states = [index for index in FIRST_STATES if node.has(index)]
    if any(node.is_stored(index) for index in states):
        raise NotWritable("its initial states are stored, expected inputs of the net")
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
        module=Module(f"layers.{_KINDS[kind][0]}", _fields(rnn, way, used), _arrays(rnn, way)),
        variables=_VARIABLES[kind] if len(outputs) > 1 else (),
    )
    if not way.is_backward or not used[0]:
        return [step]
    turned = Step(step.name, node.layers, "ops.flip({0}, axis=1)", (outputs[0],), (sequence,))
    return [step, turned]


def _fields(rnn: RecurrentNode, way: _Way, used: list[bool]) -> tuple[Field, ...]:
    node, kind = rnn.node, rnn.kind
    gates, own = _activations(rnn, way)
    fields = [
        Field("units", rnn.hidden_size),
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


def _activations(rnn: RecurrentNode, way: _Way) -> tuple[str, str]:
    """Return Keras's activations of the gates and of all else."""
    kind, mine = rnn.kind, rnn.activations(way.number)
    unknown = [name for name in mine if name not in _ACTIVATIONS]
    if (
        unknown
        or len(set(mine[1:] if kind != "RNN" else mine)) > 1
        or "activation_alpha" in rnn.node.attributes
    ):
        raise NotWritable(f"its activations are {', '.join(mine)}")
    return _ACTIVATIONS[mine[0]], _ACTIVATIONS[mine[-1]]


def _first_state(node: GraphNode, index: int, way: _Way, place: int) -> str:
    is_flat = len(_WAYS[node.get("direction", "forward")]) == 1 and first_state(node.value(index)) is not None
    return f"{{{place}}}" if is_flat else f"{{{place}}}[{way.number}]"


def _state_name(node: GraphNode, index: int) -> str:
    flat = first_state(node.value(index)) if node.get("direction", "forward") != "bidirectional" else None
    return (flat if flat is not None else node.value(index)).name or ""


def _arrays(rnn: RecurrentNode, way: _Way) -> dict[str, Callable[[], np.ndarray]]:
    cell = _KINDS[rnn.kind][1]
    weight, recurrent_weight = (rnn.matrix(index, way.number) for index in (1, 2))
    state = {
        f"{cell}/kernel": lambda: weight().T,
        f"{cell}/recurrent_kernel": lambda: recurrent_weight().T,
    }
    return state | ({f"{cell}/bias": _bias(rnn, way)} if rnn.node.has(3) else {})


def _bias(rnn: RecurrentNode, way: _Way) -> Callable[[], np.ndarray]:
    """Return a function that gives Keras's bias: one of the sum, or both where the reset is after."""
    of_input, of_state = (rnn.bias(way.number, half=half) for half in (0, 1))
    if rnn.node.get("linear_before_reset", 0):
        return lambda: np.stack([of_input(), of_state()])
    return lambda: np.asarray(of_input() + of_state())


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
