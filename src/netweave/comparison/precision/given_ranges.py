"""Ranges of activations that nobody calibrated: a format's rule or the layer before gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph.passes.rounding import MOVING, array_of

if TYPE_CHECKING:
    from collections.abc import Collection

    import onnx_ir as ir

    from netweave.graph.passes.rounding import Quantiser, RoundingPoint

BOUNDED = {"HardSigmoid": 1.0, "Sigmoid": 1.0, "Softmax": 1.0, "Tanh": 1.0}
"""Functions whose values are no larger, which TFLite's specification prescribes as the range."""

ROUNDING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""What stands between a function and the place, where integers are brought to another type."""

AVERAGING = frozenset({"AveragePool", "GlobalAveragePool", "Resize"})
"""Operators that TFLite's specification gives the range of their input, however little they fill it."""

ONE_STEP = 1.02
"""The range may end a step beyond the bounds: 255 steps of 1/256 do not reach 1, those of 1/127 pass it."""


def has_given_range(point: RoundingPoint) -> bool:
    """Return whether the range at a place is no larger than its rule gives.

    A classifier that is not sure of anything fills little of the range from 0 to 1, which is no fault.
    """
    maker = _computed_by(point.value, through=MOVING | ROUNDING)
    if maker is None or point.quantiser is None:
        return False
    if maker.op_type in BOUNDED:
        low, high = point.quantiser.range
        bound = BOUNDED[maker.op_type] * ONE_STEP
        return -bound <= low and high <= bound  # integers without a zero point go as far below zero
    maker = _computed_by(point.value)
    return maker is not None and maker.op_type in AVERAGING and _is_range_of(maker.inputs[0], point.quantiser)


def _computed_by(value: ir.Value | None, *, through: Collection[str] = MOVING) -> ir.Node | None:
    """Return the node that computed what a value holds, through those that only move or round elements."""
    maker = value.producer() if value is not None else None
    while maker is not None and maker.op_type in through:
        value = maker.inputs[0]
        maker = value.producer() if value is not None else None
    return maker


def _is_range_of(value: ir.Value | None, quantiser: Quantiser) -> bool:
    """Return whether a value was rounded with the same scale and zero point before."""
    back = _computed_by(value)
    if back is None or back.op_type != "DequantizeLinear":
        return False
    scale, zero = (array_of(operand) for operand in back.inputs[1:3])
    if scale is None or zero is None:
        return False
    return np.array_equal(scale, quantiser.scale) and np.array_equal(zero, quantiser.zero_point)
