"""Functions of ``keras.ops`` that the code of layers and models calls (keras/ops)."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.keras.layers.elementwise import apply
from netweave.formats.lowering.channels_last import Operand, Stored, Tensor, layer, windows
from netweave.formats.lowering.channels_last.layer import reduce
from netweave.formats.lowering.elementwise import rectify

ACTIVATIONS = {
    "HardSigmoid": "hard_sigmoid",
    "HardSilu": "hard_silu",
    "HardTanh": "hard_tanh",
    "Relu": "relu",
    "Relu6": "relu6",
    "Selu": "selu",
    "Silu": "silu",
    "Softsign": "softsign",
    "TanhShrink": "tanh_shrink",
}
"""Functions that are an activation with its usual settings, by the activation's name."""

LARGEST = float(np.finfo(np.float32).max)


@layer_reader(*ACTIVATIONS)
def activation(ctx: KerasLayer) -> Tensor:
    """An activation with its usual settings."""
    return apply(ctx, ctx.x, ACTIVATIONS[ctx.type])


@layer_reader("LeakyRelu")
def leaky_relu(ctx: KerasLayer) -> Tensor:
    """A slope of 0.2 below 0, unless it says another."""
    return ctx.elementwise(rectify, ctx.x, slope=ctx.number("negative_slope", 0.2))


@layer_reader("Elu", "Celu")
def elu(ctx: KerasLayer) -> Tensor:
    """Exponential below 0."""
    return ctx.unary(ctx.type, ctx.x, {"alpha": ctx.number("alpha", 1.0)})


@layer_reader("Copy", "StopGradient")
def passed_on(ctx: KerasLayer) -> Tensor:
    """The input, unchanged."""
    return ctx.copied(ctx.x)


@layer_reader("AveragePool", "MaxPool")
def pooling(ctx: KerasLayer) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor."""
    rank = ctx.rank() - 2
    kernel = ctx.per_axis("pool_size", rank)
    window = windows.PaddedWindow.of(kernel, _per_axis(ctx, "strides", rank, kernel), ctx.padding())
    return windows.pooling(ctx, ctx.x, ctx.type, window, last=ctx.is_last())


@layer_reader("Conv", "DepthwiseConv")
def convolution(ctx: KerasLayer) -> Tensor:
    """A kernel of (sizes..., channels / groups, filters), or (sizes..., channels, multiplier), everywhere."""
    x, kernel = _two(ctx)
    rank, last = ctx.rank() - 2, ctx.is_last()
    *sizes, inner, _ = [size or 0 for size in ctx.shape(kernel)]
    strides, dilations = _per_axis(ctx, "strides", rank, [1]), _per_axis(ctx, "dilation_rate", rank, [1])
    window = windows.PaddedWindow.of(sizes, strides, ctx.padding(), dilations)
    groups = None if ctx.type == "DepthwiseConv" else ctx.channels(last=last) // max(inner, 1)
    return windows.convolution(ctx, x, kernel, window, groups=groups, last=last)


def _per_axis(ctx: KerasLayer, name: str, rank: int, default: Sequence[int]) -> list[int]:
    """Return a setting with a number for each axis, which may be None for the default."""
    if ctx.setting(name) is None:
        return list(default) * (rank // len(default))
    return ctx.per_axis(name, rank)


@layer_reader("Einsum")
def einsum(ctx: KerasLayer) -> Tensor:
    """A sum over named axes."""
    return Tensor(ctx.add("Einsum", ctx.inputs, {"equation": ctx.string("subscripts", "").replace(" ", "")}))


@layer_reader("Outer")
def outer(ctx: KerasLayer) -> Tensor:
    """All products of two vectors."""
    a, b = _two(ctx)
    if ctx.rank(a) != 1 or ctx.rank(b) != 1:
        raise ctx.unsupported("of tensors with more than one axis is not supported")
    return ctx.broadcast("Mul", [layer.widen(ctx, a, [1]), b])


@layer_reader("BroadcastTo")
def broadcast_to(ctx: KerasLayer) -> Tensor:
    """Repeated along axes of size 1; an open size stays as it is."""
    sizes = ctx.setting("shape")
    if not isinstance(sizes, list) or not all(size is None or isinstance(size, int) for size in sizes):
        raise ctx.setting_error("shape", "integers")
    return Tensor(ctx.add("Expand", [ctx.x, ctx.integers([1 if size is None else size for size in sizes])]))


@layer_reader("Repeat")
def repeat(ctx: KerasLayer) -> Tensor:
    """Each entry of an axis several times after one another."""
    axis, times = ctx.one_axis(), ctx.setting("repeats")
    if not isinstance(times, int) or times < 1:
        raise ctx.setting_error("repeats", "an integer of at least 1")
    numbers = np.repeat(np.arange(ctx.size(axis)), times)
    return layer.gather(ctx, ctx.x, ctx.constant(numbers, dtype=np.int64), axis)


@layer_reader("Swapaxes", "Moveaxis")
def moved_axes(ctx: KerasLayer) -> Tensor:
    """Two axes exchanged, or axes moved to other places."""
    rank = ctx.rank()
    if ctx.type == "Swapaxes":
        perm = [*range(rank)]
        first, second = (ctx.axis(ctx.integer(name), rank) for name in ("axis1", "axis2"))
        perm[first], perm[second] = second, first
    else:
        sources, targets = (
            [ctx.axis(axis, rank) for axis in ctx.integer_list(name)] for name in ("source", "destination")
        )
        perm = [axis for axis in range(rank) if axis not in sources]
        for target, source in sorted(zip(targets, sources, strict=True)):
            perm.insert(target, source)
    return layer.transpose(ctx, ctx.x, perm)


@layer_reader("Std", "Var")
def spread(ctx: KerasLayer) -> Tensor:
    """The mean of the squares of what differs from the mean, over axes or all; or its root."""
    axes, keep = ctx.axes(), ctx.boolean("keepdims", False)
    centred = ctx.broadcast("Sub", [ctx.x, reduce(ctx, "ReduceMean", ctx.x, axes, keep=True)])
    variance = reduce(ctx, "ReduceMean", ctx.elementwise("square", centred), axes, keep=keep)
    return ctx.unary("Sqrt", variance) if ctx.type == "Std" else variance


@layer_reader("Cumsum")
def cumulated(ctx: KerasLayer) -> Tensor:
    """Sums of all entries so far, along one axis."""
    axis = ctx.axis(ctx.one_axis())
    return Tensor(ctx.add("CumSum", [ctx.x, ctx.constant(axis, dtype=np.int64)]))


@layer_reader("Norm")
def norm(ctx: KerasLayer) -> Tensor:
    """The Euclidean length over axes."""
    if ctx.setting("ord") not in (None, 2):
        raise ctx.unsupported(f"ord={ctx.setting('ord')!r:.40} is not supported; it is 2")
    axes, keep = ctx.axes(), ctx.boolean("keepdims", False)
    return ctx.unary("Sqrt", reduce(ctx, "ReduceSum", ctx.elementwise("square", ctx.x), axes, keep=keep))


@layer_reader("Tril", "Triu")
def triangle(ctx: KerasLayer) -> Tensor:
    """Zero above a diagonal of the last two axes, or below it."""
    offset = ctx.constant(ctx.integer("k", 0), dtype=np.int64)
    return Tensor(ctx.add("Trilu", [ctx.x, offset], {"upper": int(ctx.type == "Triu")}))


@layer_reader("TopK")
def top_k(ctx: KerasLayer) -> list[Tensor]:
    """The largest entries of the last axis, and their numbers."""
    ctx.boolean("sorted", True)
    count = ctx.integers([ctx.positive("k")])
    values, numbers = ctx.builder.add_many(
        "TopK", [ctx.source(ctx.x), count], {"axis": -1, "largest": 1, "sorted": 1}, outputs=["", ""]
    )
    return [Tensor(values), Tensor(numbers)]


@layer_reader("Unstack")
def unstack(ctx: KerasLayer) -> list[Tensor]:
    """Each entry of an axis by itself."""
    axis = ctx.axis(ctx.integer("axis", 0))
    ctx.setting("num")
    parts = layer.split(ctx, ctx.x, [1] * ctx.size(axis), axis)
    return [layer.drop(ctx, part, [axis]) for part in parts]


@layer_reader("LayerNorm", "RMSNorm")
def normalized(ctx: KerasLayer) -> Tensor:
    """Over axes, times a scale and plus a shift if they are given; eps is that of the element type."""
    x, axes = ctx.x, ctx.axes(default=-1)
    if ctx.boolean("rms_scaling", False):
        raise ctx.unsupported("rms_scaling=True is not supported; use keras.ops.rms_normalization")
    epsilon = (
        float(np.finfo(np.float32).eps) if ctx.setting("epsilon") is None else ctx.number("epsilon", 0.0)
    )
    scale, shift = _argument(ctx, 1, "gamma", "scale"), _argument(ctx, 2, "beta")
    if ctx.type == "LayerNorm":
        x = ctx.broadcast("Sub", [x, reduce(ctx, "ReduceMean", x, axes, keep=True)])
    mean = reduce(ctx, "ReduceMean", ctx.elementwise("square", x), axes, keep=True)
    raised = ctx.broadcast("Add", [mean, ctx.scalar(epsilon, x)])
    out = ctx.broadcast("Div", [x, ctx.unary("Sqrt", raised)])
    out = ctx.broadcast("Mul", [out, scale]) if scale is not None else out
    return ctx.broadcast("Add", [out, shift]) if shift is not None else out


@layer_reader("DotProductAttention")
def dot_product_attention(ctx: KerasLayer) -> Tensor:
    """Attention over (batch, time, heads, features); fewer heads of keys and values are repeated."""
    query, key, value = (_argument(ctx, at, name) for at, name in enumerate(("query", "key", "value")))
    bias, mask, scale = (_argument(ctx, at, n) for at, n in enumerate(("bias", "mask", "scale"), start=3))
    if query is None or key is None or value is None:
        raise ctx.unsupported("has no query, key and value as tensors")
    ctx.setting("flash_attention")
    if ctx.setting("attn_logits_soft_cap") is not None:
        raise ctx.unsupported("attn_logits_soft_cap is not supported")
    heads, groups = ctx.size(2, query), ctx.size(2, key)
    if heads % groups:
        raise ctx.shape_error(f"{heads} heads cannot share {groups} heads of keys")
    if heads != groups:
        numbers = ctx.constant(np.repeat(np.arange(groups), heads // groups), dtype=np.int64)
        key, value = (layer.gather(ctx, x, numbers, 2) for x in (key, value))
    q, v = (layer.transpose(ctx, x, [0, 2, 1, 3]) for x in (query, value))
    k = layer.transpose(ctx, key, [0, 2, 3, 1])
    factor = scale if isinstance(scale, (int, float)) else 1 / sqrt(ctx.size(-1, query))
    scores = ctx.broadcast("Mul", [Tensor(ctx.add("MatMul", [q, k])), ctx.scalar(factor, q)])
    scores = ctx.broadcast("Add", [scores, bias]) if bias is not None else scores
    if ctx.boolean("is_causal", False):
        steps, seen = ctx.size(1, query), ctx.size(1, key)
        causal = ctx.constant(np.tril(np.ones((steps, seen))), dtype=np.bool_)
        scores = ctx.broadcast("Where", [causal, scores, ctx.scalar(-LARGEST, scores)])
    if mask is not None:
        scores = ctx.broadcast("Where", [mask, scores, ctx.scalar(-LARGEST, scores)])
    weights = layer.along(ctx, "Softmax", scores, -1)
    return layer.transpose(ctx, Tensor(ctx.add("MatMul", [weights, v])), [0, 2, 1, 3])


def _argument(ctx: KerasLayer, number: int, *names: str) -> Any:
    """Return an argument of the call by its place or one of its names; None if it is not given."""
    named = [ctx.kwargs[name] for name in names if name in ctx.kwargs]
    return named[0] if named else ctx.args[number] if number < len(ctx.args) else None


def _two(ctx: KerasLayer) -> tuple[Operand, Operand]:
    """Return two operands, a stored array as it is, so that the operator can have it in its layout."""
    given = [value for value in ctx.stored_args if isinstance(value, (Tensor, Stored))]
    if len(given) != 2:
        raise ctx.unsupported(f"has {len(given)} tensors as inputs, expected 2")
    return given[0], given[1]
