"""Operators that reduce axes, and products of matrices (broadcast_reduce_op.h, dot-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.variables import onnx_dtype

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator
    from netweave.formats.mxnet.symbol.settings import Settings

REDUCTIONS = {
    "_square_sum": "ReduceSumSquare",
    "sum": "ReduceSum",
    "sum_axis": "ReduceSum",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "max_axis": "ReduceMax",
    "min": "ReduceMin",
    "min_axis": "ReduceMin",
    "prod": "ReduceProd",
}
WANTED = ("indices", "value", "both", "mask")
NORMS = {1: "ReduceL1", 2: "ReduceL2"}


@operator_reader(*REDUCTIONS)
def reduce(ctx: MXNetOperator) -> ir.Value:
    """Over ``axis``, over all others with ``exclude``, or over all."""
    return _reduced(ctx, REDUCTIONS[ctx.op])


@operator_reader("norm")
def norm(ctx: MXNetOperator) -> ir.Value:
    """Sum of absolute values, or root of the sum of squares."""
    order = ctx.settings.integer("ord", 2)
    if order not in NORMS:
        raise ctx.read_error(f"ord={order}, expected 1 or 2")
    ctx.settings.ignore("out_dtype")
    return _reduced(ctx, NORMS[order])


def _reduced(ctx: MXNetOperator, op_type: str) -> ir.Value:
    settings = ctx.settings
    rank = ctx.rank()
    axes = [ctx.axis(axis) for axis in settings.integers("axis", ())] or list(range(rank))
    if settings.flag("exclude", False):
        axes = [axis for axis in range(rank) if axis not in axes]
    keepdims = int(settings.flag("keepdims", False))
    return _at_least_one_axis(ctx, ctx.add(op_type, [ctx.x, ctx.integers(axes)], {"keepdims": keepdims}))


@operator_reader("argmax", "argmin")
def arg(ctx: MXNetOperator) -> ir.Value:
    """Place of the largest or smallest element, as a number of the input's type."""
    axis = ctx.settings.integer("axis", None)
    keep = ctx.settings.flag("keepdims", False)
    x = ctx.x
    if axis is None:
        x, axis = ctx.reshape(x, [-1]), 0
    axis = ctx.axis(axis, ctx.rank(x))
    op_type = "ArgMax" if ctx.op == "argmax" else "ArgMin"
    places = ctx.add(op_type, [x], {"axis": axis, "keepdims": int(keep)})
    return _at_least_one_axis(ctx, ctx.cast(places, ir.DataType.FLOAT))


@operator_reader("argmax_channel")
def argmax_channel(ctx: MXNetOperator) -> ir.Value:
    """Place of the largest element along axis 1."""
    return ctx.cast(ctx.add("ArgMax", [ctx.x], {"axis": 1, "keepdims": 0}), ir.DataType.FLOAT)


def _topk_outputs(settings: Settings) -> int:
    return 2 if settings.choice("ret_typ", WANTED, "indices") == "both" else 1


@operator_reader("topk", count=_topk_outputs)
def topk(ctx: MXNetOperator) -> ir.Value | tuple[ir.Value, ...]:
    """The ``k`` largest (or smallest) elements along an axis, their places, both, or ones in these places."""
    settings = ctx.settings
    wanted = settings.choice("ret_typ", WANTED, "indices")
    values, places = _sorted(ctx, settings.integer("k", 1), ascending=settings.flag("is_ascend", False))
    if wanted == "mask":
        return _mask(ctx, places)
    if wanted == "both":
        return values, places
    return places if wanted == "indices" else values


def _mask(ctx: MXNetOperator, places: ir.Value) -> ir.Value:
    """Return ones in some places along an axis, zeros elsewhere."""
    x, axis = _along(ctx)
    shape = ctx.add("Shape", [x])
    zeros = ctx.add("Expand", [ctx.scalar(0.0, x), shape])
    places = ctx.cast(places, ir.DataType.INT64)
    ones = ctx.add("Expand", [ctx.scalar(1.0, x), ctx.add("Shape", [places])])
    mask = ctx.add("ScatterElements", [zeros, places, ones], {"axis": axis})
    return mask if x is ctx.x else ctx.add("Reshape", [mask, ctx.add("Shape", [ctx.x])])


def _along(ctx: MXNetOperator) -> tuple[ir.Value, int]:
    """Return the input and the axis to sort along; flat where ``axis`` is None."""
    x = ctx.x
    if ctx.settings.texts().get("axis") == "None":  # of other settings None is the default
        ctx.settings.ignore("axis")
        return ctx.add("Reshape", [x, ctx.integers([-1])]), 0
    return x, ctx.axis(ctx.settings.integer("axis", -1))


@operator_reader("sort", "argsort")
def sort(ctx: MXNetOperator) -> ir.Value:
    """Elements in order along an axis, or their places."""
    values, places = _sorted(ctx, 0, ascending=ctx.settings.flag("is_ascend", True))
    return values if ctx.op == "sort" else places


def _sorted(ctx: MXNetOperator, k: int, *, ascending: bool) -> tuple[ir.Value, ir.Value]:
    settings = ctx.settings
    x, axis = _along(ctx)
    count = ctx.integers([k]) if k > 0 else ctx.add("Shape", [x], {"start": axis, "end": axis + 1})
    attributes = {"axis": axis, "largest": int(not ascending)}
    values, places = ctx.add_many("TopK", [x, count], attributes, outputs=2)
    dtype = onnx_dtype(settings.dtype("dtype", "float32"))
    return values, ctx.cast(places, dtype)


@operator_reader("dot", arguments=("lhs", "rhs"))
def dot(ctx: MXNetOperator) -> ir.Value:
    """Last axis of the first input against the first axis of the second."""
    ctx.settings.ignore("forward_stype")
    a, b = ctx.input("lhs"), ctx.input("rhs")
    ranks = ctx.rank(a), ctx.rank(b)
    letters = "abcdefgh"
    first, second = letters[: ranks[0]], letters[ranks[0] : sum(ranks)]
    joined_a = 0 if ctx.settings.flag("transpose_a", False) else ranks[0] - 1
    joined_b = ranks[1] - 1 if ctx.settings.flag("transpose_b", False) else 0
    if ranks == (2, 2):
        sides = [_turned(ctx, a, joined_a == 0), _turned(ctx, b, joined_b == 1)]
        return ctx.add("MatMul", sides)
    second = second.replace(second[joined_b], first[joined_a])
    rest = (first + second).replace(first[joined_a], "")
    product = ctx.add("Einsum", [a, b], {"equation": f"{first},{second}->{rest}"})
    return _at_least_one_axis(ctx, product)


@operator_reader("batch_dot", arguments=("lhs", "rhs"))
def batch_dot(ctx: MXNetOperator) -> ir.Value:
    """A product of matrices for each element of the batch."""
    ctx.settings.ignore("forward_stype")
    a = _turned(ctx, ctx.input("lhs"), ctx.settings.flag("transpose_a", False))
    b = _turned(ctx, ctx.input("rhs"), ctx.settings.flag("transpose_b", False))
    return ctx.add("MatMul", [a, b])


@operator_reader("_linalg_gemm2", "linalg_gemm2", arguments=("A", "B"))
def gemm2(ctx: MXNetOperator) -> ir.Value:
    """``alpha`` times a product of matrices."""
    settings = ctx.settings
    if settings.integer("axis", -2) != -2:
        raise ctx.unsupported("an axis other than -2 is not supported")
    a = _turned(ctx, ctx.input("A"), settings.flag("transpose_a", False))
    b = _turned(ctx, ctx.input("B"), settings.flag("transpose_b", False))
    product = ctx.add("MatMul", [a, b])
    alpha = settings.number("alpha", 1.0)
    return product if alpha == 1.0 else ctx.add("Mul", [product, ctx.scalar(alpha, product)])


def _turned(ctx: MXNetOperator, x: ir.Value, wanted: bool) -> ir.Value:
    if not wanted:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def _at_least_one_axis(ctx: MXNetOperator, x: ir.Value) -> ir.Value:
    """MXNet's numbers are tensors of the shape (1,)."""
    return x if ctx.shape(x) else ctx.reshape(x, [1])
