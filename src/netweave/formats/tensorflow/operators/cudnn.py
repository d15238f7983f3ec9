"""Recurrent layers of cuDNN, whose weights lie in one array (cudnn_rnn_ops.cc).

The order of that array is cuDNN's: for each layer and direction the matrices of the input, gate by gate,
then those of the state; behind the last layer, in the same order, the biases. The gates of an LSTM are i,
f, c, o, those of a GRU r, z, h; ONNX has them as i, o, f, c and z, r, h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.files.channels_last import Tensor
from netweave.formats.tensorflow.operands import constant_of
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.tensorflow.call import Call
    from netweave.formats.tensorflow.operands import Item


@dataclass(frozen=True, slots=True)
class _Mode:
    """A kind of layer: ONNX's operator, cuDNN's gate for each of ONNX's, and further attributes."""

    op_type: str
    gates: tuple[int, ...]
    attributes: dict[str, Any]


MODES = {
    "lstm": _Mode("LSTM", (0, 3, 1, 2), {}),
    "gru": _Mode("GRU", (1, 0, 2), {"linear_before_reset": 1}),
    "rnn_tanh": _Mode("RNN", (0,), {}),
    "rnn_relu": _Mode("RNN", (0,), {"activations": ["Relu"]}),
}


class _Packed:
    """Takes matrices and biases from the one array, in its order."""

    def __init__(self, call: Call, mode: _Mode, params: ir.Value, units: int) -> None:
        self._writer = call.writer
        self._mode = mode
        self._params = params
        self._units = units
        self._next = 0

    def matrix(self, columns: int) -> ir.Value:
        """Return the next matrices as ONNX's (1, gates * units, columns)."""
        gates = len(self._mode.gates)
        rows = self._arranged([gates, self._units, columns], 0)
        return self._reshaped(rows, [1, gates * self._units, columns])

    def biases(self) -> ir.Value:
        """Return the next biases, of the input and of the state, as ONNX's (1, 2 * gates * units)."""
        gates = len(self._mode.gates)
        return self._reshaped(self._arranged([2, gates, self._units], 1), [1, 2 * gates * self._units])

    def _arranged(self, sizes: list[int], axis: int) -> ir.Value:
        count = sizes[0] * sizes[1] * sizes[2]
        bounds = [[self._next], [self._next + count], [0]]
        self._next += count
        part = self._writer.add("Slice", [self._params, *map(self._writer.integers, bounds)])
        cut = self._reshaped(part, sizes)
        return self._writer.add("Gather", [cut, self._writer.integers(self._mode.gates)], {"axis": axis})

    def _reshaped(self, value: ir.Value, sizes: list[int]) -> ir.Value:
        return self._writer.add("Reshape", [value, self._writer.integers(sizes)])


@operator_reader("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
def cudnn_rnn(call: Call) -> list[Item]:
    """Layers of one kind over each other; the input is (time, batch, features) unless it says otherwise."""
    mode, ways = _mode(call), 2 if call.text("direction", "unidirectional") == "bidirectional" else 1
    writer, by_time = call.writer, bool(call.attribute("time_major", True))
    x, hidden = (_by_time(call, writer.source(call.operand(index)), by_time) for index in (0, 1))
    cell = _by_time(call, writer.source(call.operand(2)), by_time) if mode.op_type == "LSTM" else None
    count, units = writer.known(Tensor(hidden), [0, 2])
    (features,) = writer.known(Tensor(x), [2])
    num_layers = call.few(count) // ways
    packed = _Packed(call, mode, writer.source(call.operand(3)), units)
    widths = [features, *[ways * units] * (num_layers - 1)]
    weights = [[(packed.matrix(w), packed.matrix(units)) for _ in range(ways)] for w in widths]
    biases = [[packed.biases() for _ in range(ways)] for _ in widths]
    states = [_split(call, state, num_layers, ways) for state in (hidden, cell) if state is not None]
    lengths, last = _lengths(call, x), []
    for layer in range(num_layers):
        matrices = [_joined(call, list(each)) for each in zip(*weights[layer], strict=True)]
        inputs = [x, *matrices, _joined(call, biases[layer]), lengths, *(state[layer] for state in states)]
        attributes = {"hidden_size": units, **mode.attributes}
        if ways == 2:
            attributes["direction"] = "bidirectional"
            attributes["activations"] = mode.attributes.get("activations", []) * 2
            attributes = {key: value for key, value in attributes.items() if value != []}
        made = writer.add_many(mode.op_type, inputs, attributes, num_outputs=1 + len(states))
        turned = writer.add("Transpose", [made[0]], {"perm": [0, 2, 1, 3]})
        x = writer.add("Reshape", [turned, writer.integers([0, 0, ways * units])])
        last.append(made[1:])
    ends = [_joined(call, list(each)) for each in zip(*last, strict=True)]
    return [Tensor(_by_time(call, value, by_time)) for value in (x, *ends)]


def _mode(call: Call) -> _Mode:
    word = call.text("rnn_mode", "lstm")
    if word not in MODES:
        raise call.refuse(f"rnn_mode={word!r:.40} is not read, only {', '.join(MODES)}")
    if call.text("input_mode", "linear_input") == "skip_input" or call.whole("num_proj", 0):
        raise call.refuse("input_mode=skip_input and projections (num_proj) are not read")
    return MODES[word]


def _by_time(call: Call, value: ir.Value, is_so: bool) -> ir.Value:
    return value if is_so else call.writer.add("Transpose", [value], {"perm": [1, 0, 2]})


def _joined(call: Call, values: list[ir.Value]) -> ir.Value:
    return values[0] if len(values) == 1 else call.writer.add("Concat", values, {"axis": 0})


def _split(call: Call, state: ir.Value, num_layers: int, ways: int) -> list[ir.Value]:
    if num_layers == 1:
        return [state]
    sizes = call.writer.integers([ways] * num_layers)
    return list(call.writer.add_many("Split", [state, sizes], {"axis": 0}, num_outputs=num_layers))


def _lengths(call: Call, x: ir.Value) -> ir.Value | None:
    """Return the steps of each example; none where all have all steps."""
    if call.op != "CudnnRNNV3":
        return None
    (steps,) = call.writer.known(Tensor(x), [0])
    found = constant_of(call.item(4))
    if found is not None and (found == steps).all():
        return None
    return call.writer.add("Cast", [call.writer.source(call.operand(4))], {"to": 6})
