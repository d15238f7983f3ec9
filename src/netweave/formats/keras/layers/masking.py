"""Steps that do not count: where masks come from, what they do to recurrent layers, and who passes them on.

A mask is True at the steps of an example that count (batch, time). A recurrent layer keeps its state over a
step that does not: here the steps that count are brought together, run as far as they go, and spread again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.axes import reduce
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Writer
    from netweave.formats.keras.call import Call

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
def masking(call: Call) -> Tensor:
    """Steps of which every number is ``mask_value`` do not count, and are 0."""
    writer, x = call.writer, call.x
    differs = _differs(call, x, call.real("mask_value", 0.0))
    kept = reduce(writer, "ReduceMax", unary(writer, "Cast", differs, {"to": _INT}), [-1], keep=True)
    zeroed = broadcast(writer, "Mul", [x, unary(writer, "Cast", kept, {"to": int(x.value.dtype or 1)})])
    flat = writer.add("Squeeze", [writer.source(kept), writer.integers([-1])])
    return call.masked(zeroed, Tensor(writer.add("Cast", [flat], {"to": _BOOL})))


def nonzero(call: Call, x: Tensor) -> Tensor:
    """Return the mask of an embedding: number 0 stands for no word."""
    return _differs(call, x, 0.0)


def _differs(call: Call, x: Tensor, number: float) -> Tensor:
    same = broadcast(call.writer, "Equal", [x, Tensor(call.writer.number(number, x.value))])
    return unary(call.writer, "Not", same)


_INT, _BOOL = int(ir.DataType.INT64), int(ir.DataType.BOOL)


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

    def spread(self, writer: Writer, steps: Tensor, *, zeros: bool) -> Tensor:
        """Return every step of the source from those that were run.

        Args:
            writer: Where to.
            steps: The steps (batch, time, units).
            zeros: Whether a step that does not count is 0; else it is what the one before was.
        """
        zero = writer.number(0, self.places)
        found = _picked(writer, steps, writer.add("Max", [self.places, zero]))
        begun = writer.add("Not", [writer.add("Less", [self.places, zero])])
        known = writer.add("Cast", [self.mask], {"to": _BOOL}) if zeros else begun
        column = writer.add("Unsqueeze", [known, writer.integers([-1])])
        return Tensor(writer.add("Where", [column, found, writer.number(0.0, found)]))


def pack(call: Call, x: Tensor, mask: Tensor) -> Packed:
    """Return a sequence with the steps that count at its begin, in their order."""
    writer = call.writer
    time = writer.builder.constant(np.asarray(1), dtype=np.int64)
    counts = writer.add("Cast", [writer.source(mask)], {"to": _INT})
    one = writer.number(1, counts)
    missing = writer.add("Sub", [one, counts])
    ones = writer.add("Add", [counts, missing])
    numbers = writer.add("CumSum", [ones, time], {"exclusive": 1})
    steps = writer.add("Shape", [counts], {"start": 1, "end": 2})
    keys = writer.add("Add", [numbers, writer.add("Mul", [missing, steps])])
    order = writer.add_many("TopK", [keys, steps], {"axis": 1, "largest": 0, "sorted": 1}, num_outputs=2)[1]
    total = writer.add("ReduceSum", [counts, writer.integers([1])], {"keepdims": 0})
    places = writer.add("Sub", [writer.add("CumSum", [counts, time]), one])
    lengths = writer.add("Cast", [total], {"to": int(ir.DataType.INT32)})
    return Packed(Tensor(_picked(writer, x, order)), lengths, places, counts)


def _picked(writer: Writer, x: Tensor, numbers: ir.Value) -> ir.Value:
    """Return steps of (batch, time, features) by their numbers (batch, time)."""
    places = writer.add("Unsqueeze", [numbers, writer.integers([-1])])
    return writer.add("GatherND", [writer.source(x), places], {"batch_dims": 1})
