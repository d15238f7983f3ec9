"""Sums, products, orders and windows: JAX's primitives over whole axes."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.formats.jax.primitives import RULES, Equation, reverse, rule

__all__ = ["RULES"]  # complete once this module is imported

REDUCTIONS = {
    "reduce_sum": "ReduceSum",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
}


@rule(*REDUCTIONS)
def _reduce(eq: Equation) -> ir.Value:
    return eq.add(REDUCTIONS[eq.name], [eq.whole(0), eq.ints(eq.params["axes"])], keepdims=0)


@rule("reduce_and", "reduce_or")
def _reduce_logical(eq: Equation) -> ir.Value:
    number = eq.add("Cast", [eq.whole(0)], to=ir.DataType.INT64)
    op_type = "ReduceMin" if eq.name == "reduce_and" else "ReduceMax"
    made = eq.add(op_type, [number, eq.ints(eq.params["axes"])], keepdims=0)
    return eq.add("Cast", [made], to=ir.DataType.BOOL)


@rule("argmax", "argmin")
def _arg(eq: Equation) -> ir.Value:
    (axis,) = eq.params["axes"]
    return eq.add("ArgMax" if eq.name == "argmax" else "ArgMin", [eq.whole(0)], axis=int(axis), keepdims=0)


@rule("sort")
def _sort(eq: Equation) -> Sequence[ir.Value]:
    axis, rank = int(eq.params["dimension"]), eq.inputs[0].rank
    if eq.params["num_keys"] != 1 or not isinstance(eq.shape[axis], int):
        raise eq.unsupported("several keys")
    size = eq.ints([eq.shape[axis]])
    made, order = eq.builder.add_many(
        "TopK", [eq.whole(0), size], {"axis": axis % rank, "largest": 0}, outputs=["", ""]
    )
    others = [eq.add("GatherElements", [eq.whole(i), order], axis=axis) for i in range(1, len(eq.inputs))]
    return [made, *others]


@rule("dynamic_update_slice")
def _dynamic_update(eq: Equation) -> ir.Value:
    """Write a part of an array anew, at a place along one axis that is known."""
    x, part, starts = eq.inputs[0], eq.inputs[1], eq.inputs[2:]
    cut = [axis for axis in range(x.rank) if str(part.shape[axis]) != str(x.shape[axis])]
    if len(cut) > 1 or not all(starts[axis].is_known for axis in cut):
        raise eq.unsupported("a part at a computed place")
    if not cut:
        return eq.whole(1)
    axis, whole = cut[0], eq.whole(0)
    size, width = int(x.shape[axis]), int(part.shape[axis])
    start = min(max(int(starts[axis].array), 0), size - width)
    ranges = [(0, start), (start + width, size)]
    before, after = (
        eq.add("Slice", [whole, eq.ints([first]), eq.ints([end]), eq.ints([axis])]) if first < end else None
        for first, end in ranges
    )
    parts = [each for each in (before, eq.whole(1), after) if each is not None]
    return eq.add("Concat", parts, axis=axis)


@rule("top_k")
def _top_k(eq: Equation) -> Sequence[ir.Value]:
    rank, axis = eq.inputs[0].rank, eq.params.get("axis", -1)
    return eq.builder.add_many(
        "TopK", [eq.whole(0), eq.ints([eq.params["k"]])], {"axis": int(axis) % rank}, outputs=["", ""]
    )


@rule("cumsum")
def _cumsum(eq: Equation) -> ir.Value:
    axis = eq.builder.constant(int(eq.params["axis"]), dtype=np.int64)
    return eq.add("CumSum", [eq.whole(0), axis], reverse=int(eq.params["reverse"]))


@rule("dot_general")
def _dot(eq: Equation) -> ir.Value:
    """Write a product of matrices; what is no product of two matrices or batches of them is an Einsum."""
    (left, right), (left_batch, right_batch) = eq.params["dimension_numbers"]
    a, b = eq.inputs
    x, y = eq.whole(0), eq.whole(1)
    of_left = [axis for axis in range(a.rank) if axis not in (*left, *left_batch)]
    of_right = [axis for axis in range(b.rank) if axis not in (*right, *right_batch)]
    leading = list(range(len(left_batch)))
    is_matrix = b.rank == 2 and len(right) == 1 and not right_batch and a.rank > 0
    if is_matrix:
        x = eq.transposed(x, [*of_left, *left])
        return eq.add("MatMul", [x, eq.transposed(y, [*right, *of_right])])
    is_batch = len(left) == 1 and len(of_left) == len(of_right) == 1
    if is_batch and list(left_batch) == list(right_batch) == leading:
        x, y = (
            eq.transposed(x, [*left_batch, *of_left, *left]),
            eq.transposed(y, [*right_batch, *right, *of_right]),
        )
        return eq.add("MatMul", [x, y])
    letters = iter(string.ascii_lowercase)
    names_a, names_b = [""] * a.rank, [""] * b.rank
    for one, other in [*zip(left_batch, right_batch, strict=True), *zip(left, right, strict=True)]:
        names_a[one] = names_b[other] = next(letters)
    names_a, names_b = ([name or next(letters) for name in names] for names in (names_a, names_b))
    out = [names_a[i] for i in (*left_batch, *of_left)] + [names_b[i] for i in of_right]
    return eq.add("Einsum", [x, y], equation=f"{''.join(names_a)},{''.join(names_b)}->{''.join(out)}")


@rule("conv_general_dilated")
def _convolve(eq: Equation) -> ir.Value:
    """Write a convolution, or a transposed one where the input is dilated, with the axes as in ONNX."""
    p = eq.params
    of_x, of_w, of_y = (list(spec) for spec in p["dimension_numbers"])
    groups, strides = p["feature_group_count"], [int(s) for s in p["window_strides"]]
    spread, dilations = [int(d) for d in p["lhs_dilation"]], [int(d) for d in p["rhs_dilation"]]
    pads = [(int(low), int(high)) for low, high in p["padding"]]
    if p["batch_group_count"] != 1:
        raise eq.unsupported("groups of the batch")
    x, w = eq.transposed(eq.whole(0), of_x), eq.transposed(eq.whole(1), of_w)
    if any(low < 0 or high < 0 for low, high in pads):
        cut = [0, 0, *(min(low, 0) for low, _ in pads), 0, 0, *(min(high, 0) for _, high in pads)]
        if any(d != 1 for d in spread):
            raise eq.unsupported("negative padding of a dilated input")
        x = eq.add("Pad", [x, eq.ints(cut)], mode="constant")
        pads = [(max(low, 0), max(high, 0)) for low, high in pads]
    shape = eq.inputs[1].shape
    kernel = [int(shape[axis]) for axis in of_w[2:]]
    settings: dict[str, Any] = {"kernel_shape": kernel, "dilations": dilations, "group": int(groups)}
    if all(d == 1 for d in spread):
        settings |= {"strides": strides, "pads": [low for low, _ in pads] + [high for _, high in pads]}
        y = eq.add("Conv", [x, w], **settings)
    else:
        if groups != 1 or any(s != 1 for s in strides):
            raise eq.unsupported("a dilated input and groups or strides")
        w = eq.transposed(reverse(eq, w, range(2, len(of_w))), [1, 0, *range(2, len(of_w))])
        cut = [
            (k - 1) * d - pad[side]
            for side in (0, 1)
            for k, d, pad in zip(kernel, dilations, pads, strict=True)
        ]
        y = eq.add("ConvTranspose", [x, w], **settings, strides=spread, pads=[max(each, 0) for each in cut])
        if min(cut) < 0:  # beyond the kernel there are zeros
            wider, count = [max(-each, 0) for each in cut], len(kernel)
            y = eq.add("Pad", [y, eq.ints([0, 0, *wider[:count], 0, 0, *wider[count:]])], mode="constant")
    return eq.transposed(y, np.argsort(of_y).tolist())


@rule("reduce_window_max", "reduce_window_sum", "reduce_window_min")
def _pool(eq: Equation) -> ir.Value:
    """Write windows as a pooling over the last axes; a sum is an average of all places times their number."""
    p, rank = eq.params, eq.inputs[0].rank
    if any(d != 1 for d in p["base_dilation"]):
        raise eq.unsupported("a dilated input")
    rows = list(
        zip(p["window_dimensions"], p["window_strides"], p["padding"], p["window_dilation"], strict=True)
    )
    moved = [a for a, (size, step, pad, _) in enumerate(rows) if size != 1 or step != 1 or any(pad)]
    still = [axis for axis in range(rank) if axis not in moved]
    if len(still) < 2:
        raise eq.unsupported("windows over all axes, expected two without")
    if not moved:
        moved = still[2:]
        still = still[:2]
    perm = [*still, *moved]
    x = eq.transposed(eq.whole(0), perm)
    sizes_in, sizes_out = ([shape[axis] for axis in perm] for shape in (eq.inputs[0].shape, eq.shape))
    if len(still) > 2:  # a pooling has two axes without windows: examples, and all others as channels
        others = math.prod(sizes_in[1 : len(still)])
        x = eq.reshaped(x, [sizes_in[0], others, *sizes_in[len(still) :]])
    kernel = [int(rows[axis][0]) for axis in moved]
    settings: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [int(rows[axis][1]) for axis in moved],
        "pads": [int(rows[axis][2][0]) for axis in moved] + [int(rows[axis][2][1]) for axis in moved],
        "dilations": [int(rows[axis][3]) for axis in moved],
    }
    if eq.name == "reduce_window_sum":
        mean = eq.add("AveragePool", [x], **settings, count_include_pad=1)
        y = eq.add("Mul", [mean, eq.scalar(float(np.prod(kernel)), eq.inputs[0].dtype)])
    elif eq.name == "reduce_window_max":
        y = eq.add("MaxPool", [x], **settings)
    else:
        y = eq.add("Neg", [eq.add("MaxPool", [eq.add("Neg", [x])], **settings)])
    if len(still) > 2:
        y = eq.reshaped(y, sizes_out)
    return eq.transposed(y, np.argsort(perm).tolist())
