"""Arithmetic of several values, and of a value and stored numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.keras.source.operators.weighted import per_channel
from netweave.formats.keras.source.table import IMAGE, Call, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from netweave.files.source_code.steps import Step

_LAYERS = {
    "Add": "Add",
    "Sub": "Subtract",
    "Mul": "Multiply",
    "Sum": "Add",
    "Max": "Maximum",
    "Min": "Minimum",
}

_AFFINE: dict[tuple[str, int], Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]] = {
    ("Mul", 0): lambda c: (c, np.zeros_like(c)),
    ("Mul", 1): lambda c: (c, np.zeros_like(c)),
    ("Div", 1): lambda c: (1 / c, np.zeros_like(c)),
    ("Add", 0): lambda c: (np.ones_like(c), c),
    ("Add", 1): lambda c: (np.ones_like(c), c),
    ("Sum", 1): lambda c: (np.ones_like(c), c),
    ("Sub", 0): lambda c: (-np.ones_like(c), c),
    ("Sub", 1): lambda c: (np.ones_like(c), -c),
}
"""Scale and shift, given the stored values, by operator and which of its inputs is stored."""


@written(*_LAYERS, "Div")
def merged(call: Call) -> Step:
    """Several values, or a value and stored numbers."""
    indices = list(range(call.num_inputs))
    stored = [index for index in indices if call.is_stored(index)]
    if stored:
        return _affine(call, stored)
    if call.node.op_type not in _LAYERS:
        raise Refused("Keras has no layer for a quotient of two values")
    if len({call.rank(index) for index in indices}) > 1:
        raise Refused("its values have another number of axes")
    places = ", ".join(f"{{{index}}}" for index in indices)
    return call.step(f"layers.{_LAYERS[call.node.op_type]}()([{places}])", inputs=indices)


def _affine(call: Call, stored: list[int]) -> Step:
    rule = _AFFINE.get((call.node.op_type, stored[0]))
    if rule is None or len(stored) > 1 or call.num_inputs != 2:
        raise Refused("one of its inputs is stored")
    array, value = call.constant(stored[0]), 1 - stored[0]
    if array.size == 1:
        scale, shift = (float(part.reshape(-1)[0]) for part in rule(array.astype(np.float32)))
        offset = f", offset={number(shift)}" if shift else ""
        return call.step(f"layers.Rescaling({number(scale)}{offset})({{0}})", inputs=[value])
    rank = call.rank(value)
    wide = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim <= rank else array
    if rank != IMAGE or wide.size != wide.shape[1]:
        raise Refused("its stored array is no number, nor one for each channel of an image")
    factors, shifts = rule(wide.reshape(-1))
    return per_channel(call, value, factors, shifts if np.any(shifts) else None)


@written("ReduceMean", "ReduceMax")
def reduction(call: Call) -> Step:
    """Over height and width."""
    call.need_image()
    axes = sorted(axis % IMAGE for axis in call.wholes(1)) if call.has(1) else []
    if axes != [2, 3]:
        raise Refused("only reductions over height and width are written")
    kind = "Average" if call.node.op_type == "ReduceMean" else "Max"
    keeps = "keepdims=True" if call.get("keepdims", 1) else ""
    return call.step(f"layers.Global{kind}Pooling2D({keeps})({{0}})")
