"""Recurrent layers of Caffe: ``recurrent_layer.cpp``, ``rnn_layer.cpp``, ``lstm_layer.cpp``.

Bottoms are x (T, N, ...), cont (T, N), perhaps x_static (N, ...), and with ``expose_hidden`` the initial
states (1, N, H); tops are the outputs (T, N, H) and with ``expose_hidden`` the last states.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.graph import DOMAIN

if TYPE_CHECKING:
    from netweave.files.protobuf import Message


@layer("LSTM", bottoms=(2, 5), tops=(1, 3))
def lstm(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the outputs' matrix; gates i, f, o, g."""
    hidden, has_static, states = _ends(ctx, num_states=2)
    outside = _outside(ctx, 4 * hidden, has_static=has_static)
    weight = ctx.blob(2 + has_static, (4 * hidden, hidden), "weight", _filler(ctx, "weight"))
    names = [*ctx.tops, "", ""][:3]
    inputs = [outside, ctx.bottoms[1], weight, *states]
    return ctx.add_many("CaffeLSTM", inputs, domain=DOMAIN, outputs=names)


@layer("RNN", bottoms=(2, 4), tops=(1, 2))
def rnn(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Arrays: x's matrix, bias, (x_static's matrix,) the states' matrix, the outputs' matrix and bias."""
    hidden, has_static, states = _ends(ctx, num_states=1)
    outside = _outside(ctx, hidden, has_static=has_static)
    weight = ctx.blob(2 + has_static, (hidden, hidden), "weight", _filler(ctx, "weight"))
    inputs = [outside, ctx.bottoms[1], weight, *states]
    names = ["", ctx.tops[1] if len(ctx.tops) > 1 else ""]
    sequence, last = ctx.add_many("CaffeRNN", inputs, domain=DOMAIN, outputs=names)
    output = _product(ctx, sequence, 3 + has_static, hidden, hidden)
    return [ctx.add("Tanh", [_plus_bias(ctx, output, 4 + has_static, hidden)], top=0), last]


def _ends(ctx: CaffeLayer, *, num_states: int) -> tuple[int, bool, Sequence[ir.Value]]:
    """Return the hidden size, whether there is an x_static, and the initial states."""
    parameter = ctx.spec["recurrent_param"]
    exposed = num_states if parameter["expose_hidden"] else 0
    num_inputs = len(ctx.bottoms) - exposed
    if num_inputs not in {2, 3} or len(ctx.tops) != 1 + exposed:
        states = f", and {exposed} states with 'expose_hidden'" if exposed else ""
        raise ctx.read_error(
            f"has {len(ctx.bottoms)} bottoms and {len(ctx.tops)} tops, expected x, cont and perhaps "
            f"x_static, and one output{states}"
        )
    return ctx.positive_field(parameter, "num_output"), num_inputs == 3, ctx.bottoms[num_inputs:]


def _outside(ctx: CaffeLayer, width: int, *, has_static: bool) -> ir.Value:
    """Return what x and x_static give to every step: (T, N, width)."""
    x, size = _flat(ctx, 0, 2)
    total = _plus_bias(ctx, _product(ctx, x, 0, width, size), 1, width)
    if not has_static:
        return total
    static, size = _flat(ctx, 2, 1)
    return ctx.add("Add", [total, _product(ctx, static, 2, width, size)])


def _flat(ctx: CaffeLayer, index: int, axis: int) -> tuple[ir.Value, int]:
    """Return a bottom with its axes from ``axis`` on as one, and the size of that one."""
    rank = ctx.rank(ctx.bottoms[index])
    size = prod(ctx.size(each, ctx.bottoms[index]) for each in range(axis, rank))
    x = ctx.bottoms[index]
    if rank == axis + 1:
        return x, size
    return ctx.add("Reshape", [x, ctx.integers([0] * axis + [size])]), size


def _product(ctx: CaffeLayer, x: ir.Value, blob: int, rows: int, columns: int) -> ir.Value:
    layout = (("transpose", (1, 0)),)
    weight = ctx.blob(blob, (rows, columns), "weight", _filler(ctx, "weight"), layout=layout)
    return ctx.add("MatMul", [x, weight])


def _plus_bias(ctx: CaffeLayer, x: ir.Value, blob: int, size: int) -> ir.Value:
    return ctx.add("Add", [x, ctx.blob(blob, (size,), "bias", _filler(ctx, "bias"))])


def _filler(ctx: CaffeLayer, role: str) -> Message:
    filler: Message = ctx.spec["recurrent_param"][f"{role}_filler"]
    return filler
