"""Recurrent links over whole sequences (``chainer.links.rnn.n_step_rnn`` and its kin).

They are given a list with one sequence for each example, which may be of different lengths, and give such a
list back. Sequences of one length run together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions.table import wrap
from netweave.formats.chainer.shim.link import ChainList, Link
from netweave.formats.chainer.shim.links.table import link
from netweave.formats.chainer.shim.recorder import current
from netweave.formats.chainer.shim.variable import Parameter, Variable

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of layer: ONNX's operator, Chainer's matrix for each of ONNX's gates, further attributes."""

    op_type: str
    gates: tuple[int, ...]
    attributes: dict[str, Any]

    @property
    def num_states(self) -> int:
        """Return how many states a layer has."""
        return 2 if self.op_type == "LSTM" else 1


_LSTM = _Kind("LSTM", (0, 3, 1, 2), {})
_GRU = _Kind("GRU", (1, 0, 2), {"linear_before_reset": 1})
_TANH = _Kind("RNN", (0,), {})
_RELU = _Kind("RNN", (0,), {"activations": ["Relu"]})


class _NStep(ChainList):
    kind: _Kind
    ways = 1
    dropout: float

    def _set_up(self, n_layers: int, in_size: int, out_size: int) -> None:
        num = len(self.kind.gates)
        for layer in range(n_layers):
            width = in_size if layer == 0 else out_size * self.ways
            for _ in range(self.ways):
                weights = Link()
                with weights.init_scope():
                    for j in range(2 * num):
                        columns = width if j < num else out_size
                        setattr(weights, f"w{j}", Parameter(shape=(out_size, columns)))
                        setattr(weights, f"b{j}", Parameter(shape=(out_size,), role="bias"))
                self.append(weights)
        self.n_layers, self.in_size, self.out_size = n_layers, in_size, out_size

    def _call(self, states: Sequence[Any], xs: Any) -> tuple[list[Variable], list[Variable]]:
        """Return the last states (layers * ways, examples, size) and what each sequence became."""
        if isinstance(xs, Variable) or not isinstance(xs, list | tuple) or not xs:
            raise CodeError("is given no list of sequences, one variable for each example")
        if any(len(x.shape) != 2 or x.shape[1] != self.in_size for x in xs):
            found = ", ".join(str(tuple(map(int, x.shape))) for x in xs[:3])
            raise CodeError(f"is given sequences of {found}, expected (steps, {self.in_size})")
        lengths = [int(x.shape[0]) for x in xs]
        ends: list[list[Any]] = []
        order: list[int] = []
        made: dict[int, Variable] = {}
        for length in dict.fromkeys(lengths):
            places = [place for place, each in enumerate(lengths) if each == length]
            last, ys = self._together(
                [_some(state, places, len(xs)) for state in states], [xs[i] for i in places]
            )
            ends.append(last)
            order += places
            made.update(zip(places, ys, strict=True))
        joined = [_in_order(list(parts), order) for parts in zip(*ends, strict=True)]
        return joined, [made[place] for place in range(len(xs))]

    def _together(self, states: Sequence[Any], xs: Sequence[Any]) -> tuple[list[Any], list[Variable]]:
        """Run sequences of one length."""
        record = current()
        raised = [record.add("Unsqueeze", [x, _whole([1])]) for x in xs]
        x = record.add("Concat", raised, {"axis": 1}) if len(raised) > 1 else raised[0]
        parts = [_layers(state, self.n_layers, self.ways) for state in states]
        lasts = []
        for layer in range(self.n_layers):
            if layer and self.dropout:
                x = record.add("Dropout", [x, record.constant(float(self.dropout))])
            first = [part[layer] for part in parts]
            made = self._layer(layer, x, first)
            turned = record.add("Transpose", [made[0]], {"perm": [0, 2, 1, 3]})
            x = record.add("Reshape", [turned, _whole([0, 0, self.ways * self.out_size])])
            lasts.append(made[1:])
        ends = [_joined(list(each)) for each in zip(*lasts, strict=True)]
        turned = record.add("Transpose", [x], {"perm": [1, 0, 2]})
        rows = _pieces(turned, [1] * len(xs), 0)
        return ends, [wrap(record.add("Squeeze", [row, _whole([0])])) for row in rows]

    def _layer(self, layer: int, x: Any, states: Sequence[Any]) -> Any:
        num, ways = len(self.kind.gates), self.ways
        sides = [self[ways * layer + way] for way in range(ways)]
        matrices = [
            _joined([_stacked(side, "w", [gate + begin for gate in self.kind.gates]) for side in sides])
            for begin in (0, num)
        ]
        both = [*self.kind.gates, *(gate + num for gate in self.kind.gates)]
        biases = _joined([_stacked(side, "b", both) for side in sides])
        attributes = {"hidden_size": self.out_size, **self.kind.attributes}
        if ways == 2:
            attributes["direction"] = "bidirectional"
            if "activations" in attributes:
                attributes["activations"] = attributes["activations"] * 2
        inputs = [x, *matrices, biases, None, *states]
        while inputs[-1] is None:
            inputs.pop()
        return current().add_many(self.kind.op_type, inputs, attributes, num_outputs=1 + self.kind.num_states)


def _whole(numbers: Sequence[int]) -> Any:
    return current().constant(list(numbers), dtype="int64")


def _stacked(weights: Any, letter: str, numbers: Sequence[int]) -> Any:
    """Return matrices or biases over each other, with an axis for the direction before them."""
    record = current()
    rows = [getattr(weights, f"{letter}{number}") for number in numbers]
    whole = record.add("Concat", rows, {"axis": 0}) if len(rows) > 1 else rows[0]
    return record.add("Unsqueeze", [whole, _whole([0])])


def _joined(values: list[Any], axis: int = 0) -> Any:
    return values[0] if len(values) == 1 else current().add("Concat", values, {"axis": axis})


def _pieces(value: Any, sizes: list[int], axis: int) -> Sequence[Any]:
    if len(sizes) == 1:
        return [value]
    return current().add_many("Split", [value, _whole(sizes)], {"axis": axis}, num_outputs=len(sizes))


def _layers(state: Any, n_layers: int, ways: int) -> Sequence[Any]:
    """Return the first state of each layer, None for zeros."""
    return [None] * n_layers if state is None else _pieces(state, [ways] * n_layers, 0)


def _some(state: Any, places: list[int], count: int) -> Any:
    """Return the first states of some examples."""
    if state is None or places == list(range(count)):
        return state
    return current().add("Gather", [state, _whole(places)], {"axis": 1})


def _in_order(parts: list[Any], order: list[int]) -> Variable:
    """Return the last states of all examples in the order of the list."""
    whole = _joined(parts, axis=1)
    if order == sorted(order):
        return wrap(whole)
    back = [order.index(place) for place in range(len(order))]
    return wrap(current().add("Gather", [whole, _whole(back)], {"axis": 1}))


class _WithCell(_NStep):
    kind = _LSTM

    def __init__(
        self,
        n_layers: int,
        in_size: int,
        out_size: int,
        dropout: float,
        *,
        initialW: Any = None,
        initial_bias: Any = None,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self._set_up(n_layers, in_size, out_size)

    def forward(self, hx: Any, cx: Any, xs: Any) -> tuple[Variable, Variable, list[Variable]]:
        """The last outputs, the last cells, and every sequence."""
        (hy, cy), ys = self._call([hx, cx], xs)
        return hy, cy, ys


class _WithoutCell(_NStep):
    def __init__(
        self,
        n_layers: int,
        in_size: int,
        out_size: int,
        dropout: float,
        *,
        initialW: Any = None,
        initial_bias: Any = None,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self._set_up(n_layers, in_size, out_size)

    def forward(self, hx: Any, xs: Any) -> tuple[Variable, list[Variable]]:
        """The last outputs, and every sequence."""
        (hy,), ys = self._call([hx], xs)
        return hy, ys


@link
class NStepLSTM(_WithCell):
    """LSTMs over each other."""


@link
class NStepBiLSTM(_WithCell):
    """LSTMs over each other, both ways."""

    ways = 2


@link
class NStepGRU(_WithoutCell):
    """GRUs over each other."""

    kind = _GRU


@link
class NStepBiGRU(_WithoutCell):
    """GRUs over each other, both ways."""

    kind, ways = _GRU, 2


@link
class NStepRNNTanh(_WithoutCell):
    """Plain recurrent layers over each other."""

    kind = _TANH


@link
class NStepBiRNNTanh(_WithoutCell):
    """Plain recurrent layers over each other, both ways."""

    kind, ways = _TANH, 2


@link
class NStepRNNReLU(_WithoutCell):
    """Plain recurrent layers with rectifiers over each other."""

    kind = _RELU


@link
class NStepBiRNNReLU(_WithoutCell):
    """Plain recurrent layers with rectifiers over each other, both ways."""

    kind, ways = _RELU, 2
