"""Numbers rounded as quantised ones would be (fake_quant_ops_functor.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.tensorflow.registry import operator_reader
from netweave.lowering.channels_last import Stored

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.lowering.channels_last import Tensor


@operator_reader("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quantised(ctx: TensorFlowOperation) -> Tensor:
    """To the nearest of 2^bits numbers between two limits, which are moved so that 0 is one of them."""
    if ctx.op == "FakeQuantWithMinMaxArgs":
        limits = [np.asarray(ctx.number(name, of), np.float32) for name, of in (("min", -6.0), ("max", 6.0))]
    else:
        limits = [
            ctx.constant_input(index, what).astype(np.float32) for index, what in ((1, "min"), (2, "max"))
        ]
    first = int(bool(ctx.attribute("narrow_range", False)))
    last = 2 ** ctx.integer("num_bits", 8) - 1
    low, high = limits
    scale = (high - low) / np.float32(last - first)
    if not np.all(scale > 0):
        raise ctx.read_error(
            f"limits from {low.tolist()} to {high.tolist()}, expected the second to be larger"
        )
    zero = np.clip(np.floor(np.float32(first) - low / scale + np.float32(0.5)), first, last)
    begin, end = (first - zero) * scale, (last - zero) * scale
    begin, end, step = (Stored.constant(np.asarray(array, np.float32)) for array in (begin, end, scale))
    kept = ctx.broadcast("Min", [ctx.broadcast("Max", [ctx.operand(0), begin]), end])
    steps = ctx.broadcast("Div", [ctx.broadcast("Sub", [kept, begin]), step])
    half = Stored.constant(np.asarray(0.5, np.float32))
    rounded = ctx.unary("Floor", ctx.broadcast("Add", [steps, half]))
    return ctx.broadcast("Add", [ctx.broadcast("Mul", [rounded, step]), begin])
