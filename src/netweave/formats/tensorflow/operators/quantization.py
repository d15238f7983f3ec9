"""Numbers rounded as quantised ones would be (fake_quant_ops_functor.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.tensorflow.call import Call


@operator_reader("FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def fake_quantised(call: Call) -> Tensor:
    """To the nearest of 2^bits numbers between two limits, which are moved so that 0 is one of them."""
    if call.op == "FakeQuantWithMinMaxArgs":
        limits = [np.asarray(call.real(name, of), np.float32) for name, of in (("min", -6.0), ("max", 6.0))]
    else:
        limits = [call.constant(index, what).astype(np.float32) for index, what in ((1, "min"), (2, "max"))]
    first = int(bool(call.attribute("narrow_range", False)))
    last = 2 ** call.whole("num_bits", 8) - 1
    low, high = limits
    scale = (high - low) / np.float32(last - first)
    if not np.all(scale > 0):
        raise call.wrong(f"limits from {low.tolist()} to {high.tolist()}, expected the second to be larger")
    zero = np.clip(np.floor(np.float32(first) - low / scale + np.float32(0.5)), first, last)
    begin, end = (first - zero) * scale, (last - zero) * scale
    begin, end, step = (Stored.constant(np.asarray(array, np.float32)) for array in (begin, end, scale))
    writer = call.writer
    kept = broadcast(writer, "Min", [broadcast(writer, "Max", [call.operand(0), begin]), end])
    steps = broadcast(writer, "Div", [broadcast(writer, "Sub", [kept, begin]), step])
    half = Stored.constant(np.asarray(0.5, np.float32))
    rounded = unary(writer, "Floor", broadcast(writer, "Add", [steps, half]))
    return broadcast(writer, "Add", [broadcast(writer, "Mul", [rounded, step]), begin])
