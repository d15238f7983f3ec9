"""The fused RNN operator (rnn-inl.h), as layers of ONNX's LSTM, GRU and RNN.

All weights come in one packed array: for each layer and direction the weights of the input, then those of
the state; after all weights, in the same order, the two biases. Gates are i, f, c, o for an LSTM (ONNX:
i, o, f, c) and r, z, n for a GRU (ONNX: z, r, n), with the reset applied after the product.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.symbol.registry import operator_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call
    from netweave.symbol.settings import Settings


@dataclass(frozen=True, slots=True)
class _Mode:
    """How a mode is written in ONNX: the operator, its gates in MXNet's order, its attributes."""

    op_type: str
    gates: tuple[int, ...]
    activation: str | None = None


MODES = {
    "lstm": _Mode("LSTM", (0, 3, 1, 2)),
    "gru": _Mode("GRU", (1, 0, 2)),
    "rnn_relu": _Mode("RNN", (0,), "Relu"),
    "rnn_tanh": _Mode("RNN", (0,), "Tanh"),
}

MAX_LAYERS = 1000
UNREAD = ("projection_size", "lstm_state_clip_min", "lstm_state_clip_max")


def _arguments(settings: Settings) -> Sequence[str]:
    names = ["data", "parameters", "state"]
    if settings.choice("mode", tuple(MODES)) == "lstm":
        names.append("state_cell")
    if settings.flag("use_sequence_length", False):
        names.append("sequence_length")
    return names


def _num_outputs(settings: Settings) -> int:
    if not settings.flag("state_outputs", False):
        return 1
    return 3 if settings.choice("mode", tuple(MODES)) == "lstm" else 2


@operator_reader(
    "RNN",
    arguments=_arguments,
    outputs=("output", "state_output", "statecell_output"),
    count=_num_outputs,
)
def rnn(call: Call) -> Sequence[ir.Value]:
    """Layers over a sequence (time, batch, features); outputs, and the last states if wanted."""
    settings = call.settings
    if any(settings.number(name, None) is not None for name in UNREAD) or call.has("sequence_length"):
        raise call.refuse("projected or clipped states and sequences of several lengths are not read")
    settings.skip("lstm_state_clip_nan")
    mode = MODES[settings.choice("mode", tuple(MODES))]
    size, num_layers = settings.count("state_size"), settings.count("num_layers")
    directions = 2 if settings.flag("bidirectional", False) else 1
    dropout = settings.number("p", 0.0)
    if num_layers > MAX_LAYERS:
        raise call.wrong(f"num_layers={num_layers}, expected at most {MAX_LAYERS}")
    x = call.value("data", batch_axis=1)
    (features,) = call.known_sizes(x, [2])
    packed = _Packed(call, mode, size=size, directions=directions, features=features, num_layers=num_layers)
    states = _states(call, (num_layers * directions, None, size))
    last: list[Sequence[ir.Value]] = []
    for layer in range(num_layers):
        if layer and dropout:
            x = call.add("Dropout", [x, call.scalar(dropout, x)])
        own = [_rows(call, state, layer * directions, directions, num_layers) for state in states]
        x, *ends = _layer(call, mode, x, packed.of_layer(layer), own, size=size, directions=directions)
        last.append(ends)
    if not settings.flag("state_outputs", False):
        return [x]
    return [x, *(_joined(call, ends) for ends in zip(*last, strict=True))]


def _layer(
    call: Call,
    mode: _Mode,
    x: ir.Value,
    weights: Sequence[ir.Value],
    states: Sequence[ir.Value | None],
    *,
    size: int,
    directions: int,
) -> list[ir.Value]:
    """Add one layer; return its outputs as (time, batch, directions * size), and its last states."""
    attributes: dict[str, Any] = {"hidden_size": size}
    if directions == 2:
        attributes["direction"] = "bidirectional"
    if mode.activation:
        attributes["activations"] = [mode.activation] * directions
    if mode.op_type == "GRU":
        attributes["linear_before_reset"] = 1
    made = call.add_many(mode.op_type, [x, *weights, None, *states], attributes, num_outputs=1 + len(states))
    turned = call.add("Transpose", [made[0]], {"perm": [0, 2, 1, 3]})
    return [call.add("Reshape", [turned, call.whole_numbers([0, 0, directions * size])]), *made[1:]]


class _Packed:
    """The packed array as ONNX's weights, each made of ranges of it."""

    def __init__(
        self, call: Call, mode: _Mode, *, size: int, directions: int, features: int, num_layers: int
    ) -> None:
        self._call = call
        self._gates = mode.gates
        self._size = size
        self._directions = directions
        rows = len(mode.gates) * size
        inputs = [features, *[directions * size] * (num_layers - 1)]
        shapes: list[tuple[int, ...]] = [
            (rows, width) for n in inputs for _ in range(directions) for width in (n, size)
        ]
        shapes += [(rows,)] * (2 * directions * num_layers)
        self._shapes = shapes
        self._starts = np.cumsum([0, *(prod(shape) for shape in shapes)]).tolist()

    def of_layer(self, layer: int) -> list[ir.Value]:
        """Return ONNX's W, R and B of a layer."""
        per_layer = 2 * self._directions
        weights = range(layer * per_layer, (layer + 1) * per_layer)
        biases = [number + len(self._shapes) // 2 for number in weights]
        return [self._part(numbers) for numbers in (weights[0::2], weights[1::2], biases)]

    def _part(self, numbers: Sequence[int]) -> ir.Value:
        """Return some pieces in ONNX's order of gates: weights one for each direction, biases in a row."""
        rows, *width = self._shapes[numbers[0]]
        rows *= len(numbers) // self._directions
        ranges = tuple(bound for number in numbers for bound in self._ranges(number))
        layout = (("ranges", ranges), ("reshape", (self._directions, rows, *width)))
        return self._call.parameter("parameters", (self._starts[-1],), layout=layout)

    def _ranges(self, number: int) -> Iterator[int]:
        """Yield begin and end of each gate of a piece, in ONNX's order."""
        num_elements = prod(self._shapes[number]) // len(self._gates)
        for gate in self._gates:
            begin = self._starts[number] + gate * num_elements
            yield from (begin, begin + num_elements)


def _states(call: Call, shape: tuple[int | None, ...]) -> list[ir.Value | None]:
    """Return the first states; None for zeros, which need no batch size then."""
    names = [name for name in ("state", "state_cell") if call.has(name)]
    states = [call.value(name, default=shape, batch_axis=1) for name in names]
    return [None if _is_zeros(state) else state for state in states]


def _is_zeros(value: ir.Value) -> bool:
    producer = value.producer()
    if producer is None or producer.op_type != "ConstantOfShape":
        return False
    fill = producer.attributes.get("value")
    return fill is None or not fill.as_tensor().numpy().any()


def _rows(call: Call, state: ir.Value | None, start: int, count: int, num_layers: int) -> ir.Value | None:
    if state is None or num_layers == 1:
        return state
    return call.add("Slice", [state, *map(call.whole_numbers, ([start], [start + count], [0]))])


def _joined(call: Call, ends: Sequence[ir.Value]) -> ir.Value:
    return ends[0] if len(ends) == 1 else call.add("Concat", ends, {"axis": 0})


def _sequence_arguments(settings: Settings) -> Sequence[str]:
    used = settings.flag("use_sequence_length", False)
    return ("data", "sequence_length") if used else ("data",)


@operator_reader("SequenceReverse", arguments=_sequence_arguments)
def sequence_reverse(call: Call) -> ir.Value:
    """Steps of (time, batch, ...) in reverse, the first ``sequence_length`` of them or all."""
    if call.settings.whole("axis", 0) != 0:
        raise call.refuse("an axis other than 0 is not read")
    x = call.value("data", batch_axis=1)
    if call.has("sequence_length"):
        lengths = _lengths(call)
        return call.add("ReverseSequence", [x, lengths], {"time_axis": 0, "batch_axis": 1})
    bounds = [[-1], [-(2**63)], [0], [-1]]
    return call.add("Slice", [x, *map(call.whole_numbers, bounds)])


@operator_reader("SequenceMask", arguments=_sequence_arguments)
def sequence_mask(call: Call) -> ir.Value:
    """``value`` in the place of all steps from ``sequence_length`` on."""
    axis = _time_axis(call)
    fill = call.settings.number("value", 0.0)
    x = call.value("data", batch_axis=1 - axis)
    if not call.has("sequence_length"):
        return call.add("Identity", [x])
    (steps,) = call.known_sizes(x, [axis])
    rank = len(call.shape(x))
    time = call.array(call.arange(steps).reshape(-1, *[1] * (rank - 1 - axis)))
    others = [a for a in range(rank) if a != 1 - axis]
    lengths = call.add("Unsqueeze", [_lengths(call), call.whole_numbers(others)])
    return call.add("Where", [call.add("Less", [time, lengths]), x, call.scalar(fill, x)])


@operator_reader("SequenceLast", arguments=_sequence_arguments)
def sequence_last(call: Call) -> ir.Value:
    """The last step, or the one before ``sequence_length``."""
    axis = _time_axis(call)
    x = call.value("data", batch_axis=1 - axis)
    if not call.has("sequence_length"):
        return call.add("Gather", [x, call.array(np.asarray(-1, np.int64))], {"axis": axis})
    by_batch = x if axis == 1 else call.add("Transpose", [x], {"perm": _swapped(call, x)})
    places = call.add("Sub", [_lengths(call), call.whole_numbers([1])])
    column = call.add("Unsqueeze", [places, call.whole_numbers([1])])
    return call.add("GatherND", [by_batch, column], {"batch_dims": 1})


def _time_axis(call: Call) -> int:
    axis = call.settings.whole("axis", 0)
    if axis not in {0, 1}:
        raise call.wrong(f"axis={axis}, expected 0 or 1")
    return axis


def _lengths(call: Call) -> ir.Value:
    return call.add("Cast", [call.value("sequence_length", default=(None,))], {"to": 7})


def _swapped(call: Call, x: ir.Value) -> list[int]:
    return [1, 0, *range(2, len(call.shape(x)))]
