"""Arithmetic of several values, and of a value and stored numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.files.source_code.text import number
from netweave.formats.keras.source.operators.places import per_place
from netweave.formats.keras.source.operators.weighted import biased_dense, per_channel
from netweave.formats.keras.source.table import KerasNode, writes

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


@writes(*_LAYERS, "Div")
def merged(node: KerasNode) -> Step:
    """Several values, or a value and stored numbers."""
    indices = list(range(node.num_inputs))
    stored = [index for index in indices if node.is_stored(index)]
    if node.op_type == "Add" and (dense := biased_dense(node)) is not None:
        return dense
    if stored:
        return _affine(node, stored)
    ranks = {node.rank(index) for index in indices}
    if len(ranks) > 1 and any(node.has_channels_last(index) for index in indices):
        raise NotWritable("its values have another number of axes")
    if node.op_type == "Div":
        return replace(node.step("{0} / {1}", inputs=indices), binds=False)
    places = ", ".join(f"{{{index}}}" for index in indices)
    return node.step(f"layers.{_LAYERS[node.op_type]}()([{places}])", inputs=indices)


@writes("Pow")
def power(node: KerasNode) -> Step:
    """To a stored power; squares and roots have functions of their own."""
    if not node.is_stored(1) or node.constant(1).size != 1:
        raise NotWritable("its exponent is no stored number")
    exponent = float(node.constant(1).reshape(-1)[0])
    known = {2.0: "ops.square({0})", 0.5: "ops.sqrt({0})", -1.0: "ops.reciprocal({0})"}
    return node.step(known.get(exponent, f"ops.power({{0}}, {number(exponent)})"))


def _affine(node: KerasNode, stored: list[int]) -> Step:
    rule = _AFFINE.get((node.op_type, stored[0]))
    if len(stored) > 1 or node.num_inputs != 2:
        raise NotWritable("one of its inputs is stored")
    array, value = node.constant(stored[0]), 1 - stored[0]
    if rule is None:
        return _with_number(node, array, value)
    if array.size == 1:
        scale, shift = (float(part.reshape(-1)[0]) for part in rule(array.astype(np.float32)))
        offset = f", offset={number(shift)}" if shift else ""
        return node.step(f"layers.Rescaling({number(scale)}{offset})({{0}})", inputs=[value])
    rank = node.rank(value)
    wide = array.reshape((1,) * (rank - array.ndim) + array.shape) if array.ndim <= rank else array
    if node.is_image(value) and wide.ndim == rank and wide.size == wide.shape[1]:
        factors, shifts = rule(wide.reshape(-1))
        return per_channel(node, value, factors, shifts if np.any(shifts) else None)
    return per_place(node, value, *rule(wide))


def _with_number(node: KerasNode, array: np.ndarray, value: int) -> Step:
    """Return what is not affine: the larger or smaller of a value and a number, a number by a value."""
    if array.size != 1:
        raise NotWritable("its stored array is no number")
    text = number(float(array.reshape(-1)[0]))
    if node.op_type == "Div":
        return replace(node.step(f"{text} / {{0}}", inputs=[value]), binds=False)
    return node.step(f"ops.{_LAYERS[node.op_type].lower()}({{0}}, {text})", inputs=[value])


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


@writes(*_REDUCTIONS)
def reduction(node: KerasNode) -> Step:
    """Over some axes; a mean or maximum over height and width is a layer."""
    rank, keeps = node.rank(0), bool(node.get("keepdims"))
    given = node.ints(1) if node.has(1) else list(range(rank))
    axes = sorted(axis % rank for axis in given)
    if not axes:
        return node.step("{0}")
    if node.is_image() and axes == [2, 3] and node.op_type in {"ReduceMean", "ReduceMax"}:
        kind = "Average" if node.op_type == "ReduceMean" else "Max"
        return node.step(f"layers.Global{kind}Pooling2D({'keepdims=True' if keeps else ''})({{0}})")
    if not keeps and node.makes_channels_last():
        raise NotWritable("what is left of its axes would be an image")
    mine = sorted(node.place(axis) for axis in axes)
    left = [node.place(axis) for axis in range(rank) if axis not in axes]
    over = str(mine[0] if mine != [rank - 1] else -1) if len(mine) == 1 else repr(tuple(mine))
    template = _REDUCTIONS[node.op_type].replace("ARGS", f", axis={over}{', keepdims=True' if keeps else ''}")
    if not keeps and left != sorted(left):
        order = tuple(sorted(left).index(axis) for axis in left)
        template = f"ops.transpose({template}, {order})"
    return node.step(template)
