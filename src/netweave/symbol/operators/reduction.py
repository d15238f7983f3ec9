"""Operators that reduce axes, and products of matrices (broadcast_reduce_op.h, dot-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.symbol.registry import operator_reader
from netweave.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from netweave.symbol.call import Call
    from netweave.symbol.settings import Settings

REDUCTIONS = {
    "sum": "ReduceSum",
    "sum_axis": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "max_axis": "ReduceMax",
    "min": "ReduceMin",
    "min_axis": "ReduceMin",
    "prod": "ReduceProd",
}
WANTED = ("indices", "value", "both")
NORMS = {1: "ReduceL1", 2: "ReduceL2"}


@operator_reader(*REDUCTIONS)
def reduce(call: Call) -> ir.Value:
    """Over ``axis``, over all others with ``exclude``, or over all."""
    return _reduced(call, REDUCTIONS[call.op])


@operator_reader("norm")
def norm(call: Call) -> ir.Value:
    """Sum of absolute values, or root of the sum of squares."""
    order = call.settings.whole("ord", 2)
    if order not in NORMS:
        raise call.refuse(f"ord={order}; 1 and 2 are read")
    call.settings.skip("out_dtype")
    return _reduced(call, NORMS[order])


def _reduced(call: Call, op_type: str) -> ir.Value:
    settings = call.settings
    x = call.value()
    rank = len(call.shape(x))
    axes = [call.axis(axis, rank) for axis in settings.sizes("axis", ())] or list(range(rank))
    if settings.flag("exclude", False):
        axes = [axis for axis in range(rank) if axis not in axes]
    keep = settings.flag("keepdims", False)
    made = call.add(op_type, [x, call.whole_numbers(axes)], {"keepdims": int(keep)})
    return _at_least_one_axis(call, made)


@operator_reader("argmax", "argmin")
def arg(call: Call) -> ir.Value:
    """Place of the largest or smallest element, as a number of the input's type."""
    axis = call.settings.whole("axis", None)
    keep = call.settings.flag("keepdims", False)
    x = call.value()
    if axis is None:
        x, axis = call.add("Reshape", [x, call.whole_numbers([-1])]), 0
    axis = call.axis(axis, len(call.shape(x)))
    op_type = "ArgMax" if call.op == "argmax" else "ArgMin"
    found = call.add(op_type, [x], {"axis": axis, "keepdims": int(keep)})
    return _at_least_one_axis(call, call.add("Cast", [found], {"to": ir.DataType.FLOAT}))


@operator_reader("argmax_channel")
def argmax_channel(call: Call) -> ir.Value:
    """Place of the largest element along axis 1."""
    found = call.add("ArgMax", [call.value()], {"axis": 1, "keepdims": 0})
    return call.add("Cast", [found], {"to": ir.DataType.FLOAT})


def _topk_outputs(settings: Settings) -> int:
    return 2 if settings.choice("ret_typ", WANTED, "indices") == "both" else 1


@operator_reader("topk", count=_topk_outputs)
def topk(call: Call) -> ir.Value | tuple[ir.Value, ...]:
    """The ``k`` largest (or smallest) elements along an axis, their places, or both."""
    settings = call.settings
    wanted = settings.choice("ret_typ", WANTED, "indices")
    values, places = _sorted(call, settings.whole("k", 1), ascending=settings.flag("is_ascend", False))
    if wanted == "both":
        return values, places
    return places if wanted == "indices" else values


@operator_reader("sort", "argsort")
def sort(call: Call) -> ir.Value:
    """Elements in order along an axis, or their places."""
    values, places = _sorted(call, 0, ascending=call.settings.flag("is_ascend", True))
    return values if call.op == "sort" else places


def _sorted(call: Call, k: int, *, ascending: bool) -> tuple[ir.Value, ir.Value]:
    settings = call.settings
    x = call.value()
    axis = call.axis(settings.whole("axis", -1), len(call.shape(x)))
    count = call.whole_numbers([k]) if k > 0 else call.add("Shape", [x], {"start": axis, "end": axis + 1})
    attributes = {"axis": axis, "largest": int(not ascending)}
    values, places = call.add_many("TopK", [x, count], attributes, num_outputs=2)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    return values, call.add("Cast", [places], {"to": dtype})


@operator_reader("dot", arguments=("lhs", "rhs"))
def dot(call: Call) -> ir.Value:
    """Last axis of the first input against the first axis of the second."""
    call.settings.skip("forward_stype")
    a, b = call.value("lhs"), call.value("rhs")
    ranks = len(call.shape(a)), len(call.shape(b))
    letters = "abcdefgh"
    first, second = letters[: ranks[0]], letters[ranks[0] : sum(ranks)]
    joined_a = 0 if call.settings.flag("transpose_a", False) else ranks[0] - 1
    joined_b = ranks[1] - 1 if call.settings.flag("transpose_b", False) else 0
    if ranks == (2, 2):
        sides = [_turned(call, a, joined_a == 0), _turned(call, b, joined_b == 1)]
        return call.add("MatMul", sides)
    second = second.replace(second[joined_b], first[joined_a])
    rest = (first + second).replace(first[joined_a], "")
    made = call.add("Einsum", [a, b], {"equation": f"{first},{second}->{rest}"})
    return _at_least_one_axis(call, made)


@operator_reader("batch_dot", arguments=("lhs", "rhs"))
def batch_dot(call: Call) -> ir.Value:
    """A product of matrices for each element of the batch."""
    call.settings.skip("forward_stype")
    a = _turned(call, call.value("lhs"), call.settings.flag("transpose_a", False))
    b = _turned(call, call.value("rhs"), call.settings.flag("transpose_b", False))
    return call.add("MatMul", [a, b])


@operator_reader("_linalg_gemm2", "linalg_gemm2", arguments=("A", "B"))
def gemm2(call: Call) -> ir.Value:
    """``alpha`` times a product of matrices."""
    settings = call.settings
    if settings.whole("axis", -2) != -2:
        raise call.refuse("an axis other than -2 is not read")
    a = _turned(call, call.value("A"), settings.flag("transpose_a", False))
    b = _turned(call, call.value("B"), settings.flag("transpose_b", False))
    product = call.add("MatMul", [a, b])
    alpha = settings.number("alpha", 1.0)
    return product if alpha == 1.0 else call.add("Mul", [product, call.scalar(alpha, product)])


def _turned(call: Call, x: ir.Value, wanted: bool) -> ir.Value:
    if not wanted:
        return x
    rank = len(call.shape(x))
    return call.add("Transpose", [x], {"perm": [*range(rank - 2), rank - 1, rank - 2]})


def _at_least_one_axis(call: Call, x: ir.Value) -> ir.Value:
    """MXNet's numbers are tensors of the shape (1,)."""
    return x if call.shape(x) else call.add("Reshape", [x, call.whole_numbers([1])])
