"""Arithmetic of several values, and of a value and stored numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.source_code.text import number
from netweave.files.writing import Refused
from netweave.formats.keras.source.operators.weighted import per_channel
from netweave.formats.keras.source.table import IMAGE, Call, channels_last, written

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
    ranks = {call.rank(index) for index in indices}
    if len(ranks) > 1 and IMAGE in ranks:
        raise Refused("its values have another number of axes")
    if call.node.op_type == "Div":
        return replace(call.step("{0} / {1}", inputs=indices), binds=False)
    places = ", ".join(f"{{{index}}}" for index in indices)
    return call.step(f"layers.{_LAYERS[call.node.op_type]}()([{places}])", inputs=indices)


@written("Pow")
def power(call: Call) -> Step:
    """To a stored power; squares and roots have functions of their own."""
    if not call.is_stored(1) or call.constant(1).size != 1:
        raise Refused("its exponent is no stored number")
    exponent = float(call.constant(1).reshape(-1)[0])
    known = {2.0: "ops.square({0})", 0.5: "ops.sqrt({0})", -1.0: "ops.reciprocal({0})"}
    return call.step(known.get(exponent, f"ops.power({{0}}, {number(exponent)})"))


def _affine(call: Call, stored: list[int]) -> Step:
    rule = _AFFINE.get((call.node.op_type, stored[0]))
    if len(stored) > 1 or call.num_inputs != 2:
        raise Refused("one of its inputs is stored")
    array, value = call.constant(stored[0]), 1 - stored[0]
    if rule is None:
        return _with_number(call, array, value)
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


def _with_number(call: Call, array: np.ndarray, value: int) -> Step:
    """Return what is not affine: the larger or smaller of a value and a number, a number by a value."""
    if array.size != 1:
        raise Refused("its stored array is no number")
    text = number(float(array.reshape(-1)[0]))
    if call.node.op_type == "Div":
        return replace(call.step(f"{text} / {{0}}", inputs=[value]), binds=False)
    return call.step(f"ops.{_LAYERS[call.node.op_type].lower()}({{0}}, {text})", inputs=[value])


_REDUCTIONS = {
    "ReduceL1": "ops.sum(ops.absolute({0})ARGS)",
    "ReduceL2": "ops.sqrt(ops.sum(ops.square({0})ARGS))",
    "ReduceMax": "ops.max({0}ARGS)",
    "ReduceMean": "ops.mean({0}ARGS)",
    "ReduceMin": "ops.min({0}ARGS)",
    "ReduceProd": "ops.prod({0}ARGS)",
    "ReduceSum": "ops.sum({0}ARGS)",
    "ReduceSumSquare": "ops.sum(ops.square({0})ARGS)",
}


@written(*_REDUCTIONS)
def reduction(call: Call) -> Step:
    """Over some axes; a mean or maximum over height and width is a layer."""
    rank, keeps = call.rank(0), bool(call.get("keepdims", 1))
    given = call.wholes(1) if call.has(1) else list(range(rank))
    axes = sorted(axis % rank for axis in given)
    if not axes:
        return call.step("{0}")
    if rank == IMAGE and axes == [2, 3] and call.node.op_type in {"ReduceMean", "ReduceMax"}:
        kind = "Average" if call.node.op_type == "ReduceMean" else "Max"
        return call.step(f"layers.Global{kind}Pooling2D({'keepdims=True' if keeps else ''})({{0}})")
    if not keeps and rank - len(axes) == IMAGE:
        raise Refused("what is left of its axes would be an image")
    mine = sorted(channels_last(axis, rank) for axis in axes)
    left = [channels_last(axis, rank) for axis in range(rank) if axis not in axes]
    over = str(mine[0] if mine != [rank - 1] else -1) if len(mine) == 1 else repr(tuple(mine))
    template = _REDUCTIONS[call.node.op_type].replace(
        "ARGS", f", axis={over}{', keepdims=True' if keeps else ''}"
    )
    if not keeps and left != sorted(left):
        order = tuple(sorted(left).index(axis) for axis in left)
        template = f"ops.transpose({template}, {order})"
    return call.step(template)
