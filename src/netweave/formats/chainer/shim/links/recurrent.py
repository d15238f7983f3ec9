"""Recurrent links of Chainer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

from netweave.errors import CodeError
from netweave.formats.chainer.shim.functions import FUNCTIONS as F
from netweave.formats.chainer.shim.functions.table import wrap
from netweave.formats.chainer.shim.functions.windows import zeros_like_state
from netweave.formats.chainer.shim.link import Chain, ChainList, Link
from netweave.formats.chainer.shim.links.convolution import Linear
from netweave.formats.chainer.shim.links.table import Signed, composite, link, takes
from netweave.formats.chainer.shim.recorder import Parameter, Variable, current
from netweave.formats.lowering.recurrent import CUDNN_CELLS, Weights, gate_permutation, stacked_layers


@takes("in_size, out_size=None, lateral_init=None, upward_init=None, bias_init=None, forget_bias_init=None")
class _LSTM(Signed, Chain):
    def _build(self, in_size: Any, out_size: Any) -> None:
        if out_size is None:
            in_size, out_size = None, in_size
        self.state_size = out_size
        with self.init_scope():
            self.upward = Linear(in_size, 4 * out_size)
            self.lateral = Linear(out_size, 4 * out_size, nobias=True)

    def _step(self, c: Any, h: Any, x: Any) -> tuple[Variable, Variable]:
        gates = self.upward(x)
        if h is not None:
            gates = gates + self.lateral(h)
        if c is None:
            c = zeros_like_state(x, self.state_size)
        return F["lstm"](c, gates)


@composite
class LSTM(_LSTM):
    """Keeps its states from call to call; the first call starts from zeros."""

    c: Any = None
    h: Any = None

    def reset_state(self) -> None:
        """Start from zeros again."""
        self.c = self.h = None

    def set_state(self, c: Any, h: Any) -> None:
        """Start from these states."""
        self.c, self.h = c, h

    def forward(self, x: Any) -> Variable:
        """One step."""
        self.c, self.h = self._step(self.c, self.h, x)
        return self.h


@composite
class StatelessLSTM(_LSTM):
    """Is given its states."""

    def forward(self, c: Any, h: Any, x: Any) -> tuple[Variable, Variable]:
        """One step."""
        return self._step(c, h, x)


@takes("in_size, out_size, init=None, inner_init=None, bias_init=None")
class _GRU(Signed, Chain):
    def _build(self, in_size: Any, out_size: Any) -> None:
        with self.init_scope():
            for name in ("W_r", "W_z", "W"):
                setattr(self, name, Linear(in_size, out_size))
            for name in ("U_r", "U_z", "U"):
                setattr(self, name, Linear(out_size, out_size))


@composite
class StatelessGRU(_GRU):
    """Is given its state; the gate z takes the new value."""

    def forward(self, h: Any, x: Any) -> Variable:
        """One step."""
        r = F["sigmoid"](self["W_r"](x) + self["U_r"](h))
        z = F["sigmoid"](self["W_z"](x) + self["U_z"](h))
        new = F["tanh"](self["W"](x) + self["U"](r * h))
        return F["linear_interpolate"](z, new, h)


@composite
@takes("in_size, out_size, init=None, inner_init=None, bias_init=0")
class StatefulGRU(_GRU):
    """Keeps its state from call to call."""

    h: Any = None

    def reset_state(self) -> None:
        """Start from nothing again."""
        self.h = None

    def set_state(self, h: Any) -> None:
        """Start from this state."""
        self.h = h

    def forward(self, x: Any) -> Variable:
        """One step."""
        z, new = self["W_z"](x), self["W"](x)
        if self.h is not None:
            r = F["sigmoid"](self["W_r"](x) + self["U_r"](self.h))
            z = z + self["U_z"](self.h)
            new = new + self["U"](r * self.h)
        z, new = F["sigmoid"](z), F["tanh"](new)
        self.h = z * new if self.h is None else F["linear_interpolate"](z, new, self.h)
        return self.h


@composite
class GRU(StatefulGRU):
    """Chainer's other name for it."""


# They are given a list with one sequence for each example, which may be of different lengths, and give such
# a list back. Sequences of one length run together.

SIGNATURE = "n_layers, in_size, out_size, dropout, *, initialW=None, initial_bias=None"


class _NStep(Signed, ChainList):
    """Layers over each other; the matrices of a layer are links of numbered arrays, w0, b0, w1, ..."""

    cell = CUDNN_CELLS["lstm"]
    ways = 1

    def _build(self, n_layers: int, in_size: int, out_size: int, dropout: float) -> None:
        num_gates = self.cell.num_gates
        for layer in range(n_layers):
            width = in_size if layer == 0 else out_size * self.ways
            for _ in range(self.ways):
                weights = Link()
                with weights.init_scope():
                    for j in range(2 * num_gates):
                        columns = width if j < num_gates else out_size
                        setattr(weights, f"w{j}", Parameter(shape=(out_size, columns)))
                        setattr(weights, f"b{j}", Parameter(shape=(out_size,), role="bias"))
                self.append(weights)
        self.n_layers, self.in_size, self.out_size = n_layers, in_size, out_size
        self.dropout = dropout

    def _call(self, states: Sequence[Any], xs: Any) -> tuple[list[Variable], list[Variable]]:
        """Return the last states (layers * ways, examples, size) and what each sequence became."""
        if isinstance(xs, Variable) or not isinstance(xs, list | tuple) or not xs:
            raise CodeError("expected a list of sequences, one variable for each example")
        if any(len(x.shape) != 2 or x.shape[1] != self.in_size for x in xs):
            shapes = ", ".join(str(tuple(map(int, x.shape))) for x in xs[:3])
            raise CodeError(f"has sequences of {shapes} as inputs, expected (steps, {self.in_size})")
        lengths = [int(x.shape[0]) for x in xs]
        last_states: list[list[ir.Value]] = []
        order: list[int] = []
        outputs: dict[int, Variable] = {}
        for length in dict.fromkeys(lengths):
            places = [place for place, each in enumerate(lengths) if each == length]
            last, ys = self._together(
                [_some(state, places, len(xs)) for state in states], [xs[place] for place in places]
            )
            last_states.append(last)
            order += places
            outputs.update(zip(places, ys, strict=True))
        joined = [_in_order(parts, order) for parts in zip(*last_states, strict=True)]
        return joined, [outputs[place] for place in range(len(xs))]

    def _together(
        self, states: Sequence[ir.Value | None], xs: Sequence[Any]
    ) -> tuple[list[ir.Value], list[Variable]]:
        """Run sequences of one length."""
        ctx = current()
        y, last = stacked_layers(
            ctx,
            self.cell,
            ctx.concat([ctx.unsqueeze(x, [1]) for x in xs], 1),
            [self._weights(layer) for layer in range(self.n_layers)],
            hidden_size=self.out_size,
            num_directions=self.ways,
            states=states,
            dropout=float(self.dropout),
        )
        rows: Sequence[ir.Value] = [ctx.transpose(y, [1, 0, 2])]
        if len(xs) > 1:
            sizes = ctx.integers([1] * len(xs))
            rows = ctx.add_many("Split", [rows[0], sizes], {"axis": 0}, outputs=len(xs))
        return last, [wrap(ctx.squeeze(row, [0])) for row in rows]

    def _weights(self, layer: int) -> Weights:
        """Return ONNX's W, R and B, joined from the arrays of each gate."""
        ctx, num_gates = current(), self.cell.num_gates
        sides = [self[self.ways * layer + way] for way in range(self.ways)]
        of_input = gate_permutation(self.cell.op_type, source="cudnn", target="onnx")
        of_state = [gate + num_gates for gate in of_input]

        def joined(letter: str, numbers: Sequence[int]) -> ir.Value:
            stacks = [
                ctx.concat([getattr(side, f"{letter}{number}") for number in numbers], 0) for side in sides
            ]
            return ctx.concat([ctx.unsqueeze(stack, [0]) for stack in stacks], 0)

        return joined("w", of_input), joined("w", of_state), joined("b", [*of_input, *of_state])


def _some(state: Any, places: list[int], count: int) -> ir.Value | None:
    """Return the first states of some examples."""
    if state is None or places == list(range(count)):
        return None if state is None else current().as_value(state)
    return current().add("Gather", [state, current().integers(places)], {"axis": 1})


def _in_order(parts: Sequence[ir.Value], order: list[int]) -> Variable:
    """Return the last states of all examples in the order of the list."""
    ctx = current()
    joined = ctx.concat(parts, 1)
    if order != sorted(order):
        places = [order.index(place) for place in range(len(order))]
        joined = ctx.add("Gather", [joined, ctx.integers(places)], {"axis": 1})
    return wrap(joined)


@takes(SIGNATURE)
class _WithCell(_NStep):
    def forward(self, hx: Any, cx: Any, xs: Any) -> tuple[Variable, Variable, list[Variable]]:
        """The last outputs, the last cells, and every sequence."""
        (hy, cy), ys = self._call([hx, cx], xs)
        return hy, cy, ys


@takes(SIGNATURE)
class _WithoutCell(_NStep):
    def forward(self, hx: Any, xs: Any) -> tuple[Variable, list[Variable]]:
        """The last outputs, and every sequence."""
        (hy,), ys = self._call([hx], xs)
        return hy, ys


for _name, _cell, _base, _doc in (
    ("LSTM", "lstm", _WithCell, "LSTMs over each other"),
    ("GRU", "gru", _WithoutCell, "GRUs over each other"),
    ("RNNTanh", "rnn_tanh", _WithoutCell, "Plain recurrent layers over each other"),
    ("RNNReLU", "rnn_relu", _WithoutCell, "Plain recurrent layers with rectifiers over each other"),
):
    for _way, _ways, _end in (("", 1, "."), ("Bi", 2, ", both ways.")):
        _own = {"cell": CUDNN_CELLS[_cell], "ways": _ways, "__doc__": _doc + _end}
        link(type(f"NStep{_way}{_name}", (_base,), _own))
