"""Attention (keras/layers/attention): queries (batch, T, ...) look at keys and values (batch, S, ...)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.lowering.channels_last import Operand, Tensor
from netweave.formats.lowering.channels_last.layer import reduce, widen

LARGE = -1e9
"""What a score is where the mask says that it does not count."""

MAX_SCORES = 1 << 26
"""A larger causal mask is refused, since it is written out."""


@layer_reader("MultiHeadAttention")
def multi_head_attention(ctx: KerasLayer) -> list[Tensor]:
    """Several heads side by side, each with its part of the queries, keys and values; then one product."""
    if ctx.setting("attention_axes") not in (None, [1], (1,)) or ctx.boolean("use_gate", False):
        raise ctx.unsupported("attention_axes other than the second one, and use_gate, are not supported")
    if ctx.setting("sliding_window") is not None:
        raise ctx.unsupported(f"sliding_window={ctx.setting('sliding_window')!r} is not supported")
    query, value, key = _given(ctx)
    if any(ctx.rank(x) != 3 for x in (query, value, key)):
        raise ctx.unsupported("has an input that is not (batch, time, features), which is not supported")
    heads, width = ctx.positive("num_heads"), ctx.positive("key_dim")
    depth = ctx.integer("value_dim", width)
    q = _heads(ctx, query, "query", heads, width)
    k = _heads(ctx, key, "key", heads, width)
    v = _heads(ctx, value, "value", heads, depth)
    q = ctx.add("Mul", [q, ctx.scalar(1 / sqrt(width), q)])
    scores = Tensor(ctx.add("MatMul", [q, ctx.transpose(k, [0, 1, 3, 2])]))
    weights = _weights(ctx, scores, _allowed(ctx, query, key, value, heads=True))
    joined = ctx.transpose(ctx.add("MatMul", [weights, v]), [0, 2, 1, 3])
    flat = ctx.reshape(joined, [0, 0, heads * depth])
    sizes = ctx.integer_list("output_shape", ctx.size(-1, query))
    projected = _projected(ctx, flat, "output", (heads, depth), sizes)
    if len(sizes) > 1:
        projected = Tensor(ctx.reshape(ctx.source(projected), [0, 0, *sizes]))
    projected = ctx.masked(projected, ctx.mask(query))
    return [projected, weights] if ctx.kwargs.get("return_attention_scores") else [projected]


def _given(ctx: KerasLayer) -> tuple[Tensor, Tensor, Tensor]:
    """Return the query, the value and the key; without a key the values are the keys."""
    ordered = iter(value for value in ctx.args if isinstance(value, Tensor))
    named = [ctx.kwargs.get(name) for name in ("query", "value", "key")]
    query, value, key = (x if isinstance(x, Tensor) else next(ordered, None) for x in named)
    if query is None or value is None:
        raise ctx.unsupported("has a query without a value, expected both")
    return query, value, key or value


def _heads(ctx: KerasLayer, x: Tensor, name: str, heads: int, width: int) -> ir.Value:
    """Return the product with a matrix for each head, as (batch, heads, time, width)."""
    projected = _projected(ctx, x, name, (ctx.size(-1, x),), (heads, width))
    return ctx.transpose(ctx.reshape(ctx.source(projected), [0, 0, heads, width]), [0, 2, 1, 3])


def _projected(
    ctx: KerasLayer, x: Operand, name: str, inputs: Sequence[int], outputs: Sequence[int]
) -> Tensor:
    """Return the product with a kernel of (inputs..., outputs...) as a matrix, and a bias of (outputs...)."""
    inside = f"{name}_dense"
    kernel = ctx.parameter("kernel", (*inputs, *outputs), inside=inside)
    bias = ctx.optional_parameter("use_bias", "bias", outputs, role="bias", inside=inside)
    product = Tensor(ctx.add("MatMul", [x, kernel.reshaped((prod(inputs), prod(outputs)))]))
    return product if bias is None else ctx.broadcast("Add", [product, bias.reshaped((prod(outputs),))])


@layer_reader("Attention", "AdditiveAttention")
def attention(ctx: KerasLayer) -> list[Tensor]:
    """Scores by a product, or by a tanh of the sum; the values are weighted by their softmax."""
    if ctx.string("score_mode", "dot", ("dot", "concat")) == "concat":
        raise ctx.unsupported("score_mode='concat' is not supported; use AdditiveAttention")
    tensors = ctx.inputs
    if len(tensors) < 2:
        raise ctx.unsupported("has one input, expected a query and a value")
    query, value, key = tensors[0], tensors[1], tensors[2] if len(tensors) > 2 else tensors[1]
    if ctx.type == "AdditiveAttention":
        scores = _summed(ctx, query, key)
    else:
        scores = Tensor(ctx.add("MatMul", [query, ctx.transpose(ctx.source(key), [0, 2, 1])]))
        if ctx.boolean("use_scale", False):
            scores = ctx.broadcast("Mul", [scores, ctx.parameter("scale", (), role="scale")])
    weights = _weights(ctx, scores, _allowed(ctx, query, key, value, heads=False))
    weighted = Tensor(ctx.add("MatMul", [weights, value]))
    named = _argument_masks(ctx)
    query_mask = named[0] if named else ctx.mask(query)
    if query_mask is not None:
        counts = ctx.as_type(widen(ctx, query_mask, [-1]), weighted.value.dtype or ir.DataType.FLOAT)
        weighted = ctx.broadcast("Mul", [weighted, counts])
    weighted = ctx.masked(weighted, query_mask)
    return [weighted, weights] if ctx.kwargs.get("return_attention_scores") else [weighted]


def _summed(ctx: KerasLayer, query: Tensor, key: Tensor) -> Tensor:
    """Return ``sum(scale * tanh(query + key))`` over the features."""
    pairs = ctx.broadcast("Add", [widen(ctx, query, [2]), widen(ctx, key, [1])])
    terms = ctx.unary("Tanh", pairs)
    if ctx.boolean("use_scale", True):
        scale = ctx.parameter("scale", (ctx.size(-1, query),), role="scale")
        terms = ctx.broadcast("Mul", [terms, scale])
    return reduce(ctx, "ReduceSum", terms, [-1], keep=False)


def _weights(ctx: KerasLayer, scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the softmax of the scores that count."""
    if allowed is not None:
        scores = ctx.broadcast("Where", [allowed, scores, ctx.scalar(LARGE, scores)])
    weights = ctx.unary("Softmax", scores, {"axis": -1})
    rate = ctx.number("dropout", 0.0)
    return ctx.unary("Dropout", weights, more=[ctx.constant(rate)]) if ctx.training and rate else weights


def _allowed(ctx: KerasLayer, query: Tensor, key: Tensor, value: Tensor, *, heads: bool) -> Tensor | None:
    """Return which scores (batch, T, S) count, with an axis for the heads; None where all do."""
    masks = [ctx.mask(query), ctx.mask(value), ctx.mask(key) if key is not value else None]
    if named := _argument_masks(ctx):
        masks = [*named, None]
    axes = (2, 1, 1) if heads else (None, 1, None)
    parts = [
        widen(ctx, mask, [axis])
        for mask, axis in zip(masks, axes, strict=True)
        if mask is not None and axis is not None
    ]
    given = ctx.kwargs.get("attention_mask")
    if isinstance(given, Tensor):
        parts.append(ctx.as_type(given, ir.DataType.BOOL))
    if ctx.kwargs.get("use_causal_mask") or ctx.boolean("causal", False):
        parts.append(_earlier(ctx, ctx.size(1, query), ctx.size(1, key)))
    if not parts:
        return None
    allowed = parts[0]
    for part in parts[1:]:
        allowed = ctx.broadcast("And", [allowed, part])
    return widen(ctx, allowed, [1]) if heads and ctx.rank(allowed) == 3 else allowed


def _earlier(ctx: KerasLayer, rows: int, columns: int) -> Tensor:
    """Return a mask by which a step sees itself and those before it."""
    if rows * columns > MAX_SCORES:
        raise ctx.unsupported(
            f"a causal mask of {rows:,} x {columns:,} steps; at most {MAX_SCORES:,} are supported"
        )
    seen = np.tri(rows, columns, dtype=np.bool_)[None]
    return Tensor(ctx.constant(seen, dtype=np.bool_))


def _argument_masks(ctx: KerasLayer) -> list[Tensor | None]:
    """Return the masks of query and value that the call names, none if it names none."""
    given = ctx.kwargs.get("mask")
    if not isinstance(given, list) or not any(isinstance(mask, Tensor) for mask in given):
        return []
    masks = [mask if isinstance(mask, Tensor) else None for mask in given]
    return [*masks, None, None][:2]
