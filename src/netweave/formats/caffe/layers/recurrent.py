"""RNN and LSTM: ``recurrent_layer.cpp``, ``rnn_layer.cpp``, ``lstm_layer.cpp``.

Bottoms are x (T, N, ...), cont (T, N), perhaps x_static (N, ...), and with ``expose_hidden`` the initial
states (1, N, H); tops are the outputs (T, N, H) and with ``expose_hidden`` the last states.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from netweave.formats.caffe.call import Call, layer
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message


@layer("LSTM", bottoms=(2, 5), tops=(1, 3))
def lstm(call: Call) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the outputs' matrix; gates i, f, o, g."""
    hidden, has_static, states = _ends(call, num_states=2)
    outside = _outside(call, 4 * hidden, has_static=has_static)
    weight = call.blob(2 + has_static, (4 * hidden, hidden), "weight", _filler(call, "weight"))
    names = [*call.tops, "", ""][:3]
    inputs = [outside, call.bottoms[1], weight, *states]
    return call.builder.add_many("CaffeLSTM", inputs, domain=DOMAIN, outputs=names)


@layer("RNN", bottoms=(2, 4), tops=(1, 2))
def rnn(call: Call) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the states' matrix, the outputs' matrix and bias."""
    hidden, has_static, states = _ends(call, num_states=1)
    outside = _outside(call, hidden, has_static=has_static)
    weight = call.blob(2 + has_static, (hidden, hidden), "weight", _filler(call, "weight"))
    inputs = [outside, call.bottoms[1], weight, *states]
    names = ["", call.tops[1] if len(call.tops) > 1 else ""]
    sequence, last = call.builder.add_many("CaffeRNN", inputs, domain=DOMAIN, outputs=names)
    output = _product(call, sequence, 3 + has_static, hidden, hidden)
    return [call.add("Tanh", [_plus_bias(call, output, 4 + has_static, hidden)], top=0), last]


def _ends(call: Call, *, num_states: int) -> tuple[int, bool, Sequence[ir.Value]]:
    """Return the hidden size, whether there is an x_static, and the initial states."""
    parameter = call.spec["recurrent_param"]
    exposed = num_states if parameter["expose_hidden"] else 0
    num_inputs = len(call.bottoms) - exposed
    if parameter["num_output"] < 1:
        raise call.wrong("has no 'num_output' of 1 or more", parameter.line)
    if num_inputs not in {2, 3} or len(call.tops) != 1 + exposed:
        states = f", and {exposed} states with 'expose_hidden'" if exposed else ""
        raise call.wrong(
            f"has {len(call.bottoms)} bottoms and {len(call.tops)} tops, expected x, cont and perhaps "
            f"x_static, and one output{states}"
        )
    return parameter["num_output"], num_inputs == 3, call.bottoms[num_inputs:]


def _outside(call: Call, width: int, *, has_static: bool) -> ir.Value:
    """Return what x and x_static give to every step: (T, N, width)."""
    x, size = _flat(call, 0, 2)
    total = _plus_bias(call, _product(call, x, 0, width, size), 1, width)
    if not has_static:
        return total
    static, size = _flat(call, 2, 1)
    return call.add("Add", [total, _product(call, static, 2, width, size)])


def _flat(call: Call, index: int, axis: int) -> tuple[ir.Value, int]:
    """Return a bottom with its axes from ``axis`` on as one, and the size of that one."""
    rank = len(call.shape(index))
    size = prod(call.size(each, index) for each in range(axis, rank))
    x = call.bottoms[index]
    if rank == axis + 1:
        return x, size
    return call.add("Reshape", [x, call.constant([0] * axis + [size], dtype="int64")]), size


def _product(call: Call, x: ir.Value, blob: int, rows: int, columns: int) -> ir.Value:
    layout = (("transpose", (1, 0)),)
    weight = call.blob(blob, (rows, columns), "weight", _filler(call, "weight"), layout=layout)
    return call.add("MatMul", [x, weight])


def _plus_bias(call: Call, x: ir.Value, blob: int, size: int) -> ir.Value:
    return call.add("Add", [x, call.blob(blob, (size,), "bias", _filler(call, "bias"))])


def _filler(call: Call, role: str) -> Message:
    filler: Message = call.spec["recurrent_param"][f"{role}_filler"]
    return filler
