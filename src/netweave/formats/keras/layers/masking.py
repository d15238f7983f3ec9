"""Steps that do not count: where masks come from, what they do to recurrent layers, and who passes them on.

A mask is True at the steps of an example that count (batch, time). A recurrent layer keeps its state over a
step that does not: here the steps that count are brought together, run as far as they go, and spread again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.registry import layer_reader
from netweave.formats.lowering.channels_last import Tensor
from netweave.formats.lowering.channels_last.axes import drop, reduce

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer

KEEPS_MASK = frozenset(
    {
        "Activation",
        "ActivityRegularization",
        "AlphaDropout",
        "BatchNormalization",
        "Dense",
        "Dropout",
        "ELU",
        "GaussianDropout",
        "GaussianNoise",
        "GroupNormalization",
        "Identity",
        "LayerNormalization",
        "LeakyReLU",
        "Normalization",
        "PReLU",
        "ReLU",
        "Rescaling",
        "Softmax",
        "SpatialDropout1D",
        "TimeDistributed",
        "UnitNormalization",
    }
)
"""Layers whose output has the mask of their input (``supports_masking``); others drop it or say their own."""


@layer_reader("Masking")
def masking(ctx: KerasLayer) -> Tensor:
    """Steps of which every number is ``mask_value`` do not count, and are 0."""
    x = ctx.x
    differs = ctx.as_type(_differs(ctx, x, ctx.number("mask_value", 0.0)), ir.DataType.INT64)
    kept = reduce(ctx, "ReduceMax", differs, [-1], keep=True)
    zeroed = ctx.broadcast("Mul", [x, ctx.as_type(kept, x.value.dtype or ir.DataType.FLOAT)])
    return ctx.masked(zeroed, ctx.as_type(drop(ctx, kept, [-1]), ir.DataType.BOOL))


def nonzero(ctx: KerasLayer, x: Tensor) -> Tensor:
    """Return the mask of an embedding: number 0 stands for no word."""
    return _differs(ctx, x, 0.0)


def _differs(ctx: KerasLayer, x: Tensor, number: float) -> Tensor:
    return ctx.unary("Not", ctx.broadcast("Equal", [x, ctx.scalar(number, x)]))


@dataclass(frozen=True, slots=True)
class Packed:
    """A sequence with the steps that count at its begin.

    Attributes:
        x: The sequence (batch, time, features).
        lengths: How many steps of each example count.
        places: Where each step of the source lies in it: the last one that counts, -1 before the first.
        mask: The mask as 0 and 1 (batch, time).
    """

    x: Tensor
    lengths: ir.Value
    places: ir.Value
    mask: ir.Value

    def spread(self, ctx: KerasLayer, steps: Tensor, *, zeros: bool) -> Tensor:
        """Return every step of the source from those that were run.

        Args:
            ctx: The layer.
            steps: The steps (batch, time, units).
            zeros: Whether a step that does not count is 0; else it is what the one before was.
        """
        zero = ctx.scalar(0, self.places)
        nearest = _picked(ctx, steps, ctx.add("Max", [self.places, zero]))
        begun = ctx.unary("Not", ctx.add("Less", [self.places, zero]))
        counts = ctx.as_type(self.mask, ir.DataType.BOOL) if zeros else begun
        column = ctx.unsqueeze(counts, [-1])
        return Tensor(ctx.add("Where", [column, nearest, ctx.scalar(0.0, nearest)]))


def pack(ctx: KerasLayer, x: Tensor, mask: Tensor) -> Packed:
    """Return a sequence with the steps that count at its begin, in their order.

    The steps are sorted by their number, to which those that do not count add the number of all steps: so
    they come last, and the order of the others stays.
    """
    time = ctx.constant(np.asarray(1), dtype=np.int64)
    counts = ctx.source(ctx.as_type(mask, ir.DataType.INT64))
    one = ctx.scalar(1, counts)
    missing = ctx.add("Sub", [one, counts])
    numbers = ctx.add("CumSum", [ctx.add("Add", [counts, missing]), time], {"exclusive": 1})
    steps = ctx.add("Shape", [counts], {"start": 1, "end": 2})
    keys = ctx.add("Add", [numbers, ctx.add("Mul", [missing, steps])])
    order = ctx.add_many("TopK", [keys, steps], {"axis": 1, "largest": 0, "sorted": 1}, outputs=2)[1]
    total = ctx.add("ReduceSum", [counts, ctx.integers([1])], {"keepdims": 0})
    places = ctx.add("Sub", [ctx.add("CumSum", [counts, time]), one])
    lengths = ctx.source(ctx.as_type(total, ir.DataType.INT32))
    return Packed(Tensor(_picked(ctx, x, order)), lengths, places, counts)


def _picked(ctx: KerasLayer, x: Tensor, numbers: ir.Value) -> ir.Value:
    """Return steps of (batch, time, features) by their numbers (batch, time)."""
    return ctx.add("GatherND", [x, ctx.unsqueeze(numbers, [-1])], {"batch_dims": 1})
