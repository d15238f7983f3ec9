"""Attention (keras/layers/attention): queries (batch, T, ...) look at keys and values (batch, S, ...)."""

from __future__ import annotations

from math import prod, sqrt
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.keras.call import Call

LARGE = -1e9
"""What a score is where the mask says that it does not count."""

MAX_SCORES = 1 << 26
"""A larger causal mask is refused, since it is written out."""


@layer_reader("MultiHeadAttention")
def multi_head_attention(call: Call) -> list[Tensor]:
    """Several heads side by side, each with its part of the queries, keys and values; then one product."""
    if call.setting("attention_axes") not in (None, [1], (1,)) or call.flag("use_gate", False):
        raise call.refuse("attention_axes other than the second one, and use_gate, are not read")
    if call.setting("sliding_window") is not None:
        raise call.refuse(f"sliding_window={call.setting('sliding_window')!r} is not read")
    query, value, key = _given(call)
    if any(len(call.shape(x)) != 3 for x in (query, value, key)):
        raise call.refuse("is given other than (batch, time, features), which is not read")
    heads, width = call.count("num_heads"), call.count("key_dim")
    depth = call.whole("value_dim", width)
    q = _heads(call, query, "query", heads, width)
    k = _heads(call, key, "key", heads, width)
    v = _heads(call, value, "value", heads, depth)
    q = call.writer.add("Mul", [q, call.writer.number(1 / sqrt(width), q)])
    scores = call.writer.add("MatMul", [q, call.writer.add("Transpose", [k], {"perm": [0, 1, 3, 2]})])
    weights = _weights(call, Tensor(scores), _allowed(call, query, key, value, heads=True))
    both = call.writer.add("MatMul", [weights.value, v])
    joined = call.writer.add("Transpose", [both], {"perm": [0, 2, 1, 3]})
    flat = call.writer.add("Reshape", [joined, call.writer.integers([0, 0, heads * depth])])
    made = call.masked(_projected_back(call, flat, query, heads, depth), call.mask(query))
    return [made, weights] if call.kwargs.get("return_attention_scores") else [made]


def _given(call: Call) -> tuple[Tensor, Tensor, Tensor]:
    """Return the query, the value and the key; without a key the values are the keys."""
    ordered = iter(value for value in call.args if isinstance(value, Tensor))
    named = [call.kwargs.get(name) for name in ("query", "value", "key")]
    query, value, key = (x if isinstance(x, Tensor) else next(ordered, None) for x in named)
    if query is None or value is None:
        raise call.refuse("is given a query without a value")
    return query, value, key or value


def _heads(call: Call, x: Tensor, name: str, heads: int, width: int) -> ir.Value:
    """Return the product with a matrix for each head, as (batch, heads, time, width)."""
    writer = call.writer
    (features,) = writer.known(x, [-1])
    inside = f"{name}_dense"
    kernel = call.stored("kernel", (features, heads, width), inside=inside).reshaped(
        (features, heads * width)
    )
    made = Tensor(writer.add("MatMul", [writer.source(x), writer.stored(kernel)]))
    if call.flag("use_bias", True):
        bias = call.stored("bias", (heads, width), role="bias", inside=inside)
        made = broadcast(writer, "Add", [made, bias.reshaped((heads * width,))])
    cut = writer.add("Reshape", [made.value, writer.integers([0, 0, heads, width])])
    return writer.add("Transpose", [cut], {"perm": [0, 2, 1, 3]})


def _projected_back(call: Call, flat: ir.Value, query: Tensor, heads: int, depth: int) -> Tensor:
    """Return the product of all heads with the last matrix."""
    wanted = call.setting("output_shape")
    sizes = [wanted] if isinstance(wanted, int) else wanted or call.writer.known(query, [-1])
    if not isinstance(sizes, (list, tuple)) or not all(isinstance(size, int) for size in sizes):
        raise call.wrong(f"output_shape={wanted!r:.40}, expected whole numbers")
    kernel = call.stored("kernel", (heads, depth, *sizes), inside="output_dense")
    matrix = kernel.reshaped((heads * depth, prod(sizes)))
    made = Tensor(call.writer.add("MatMul", [flat, call.writer.stored(matrix)]))
    if call.flag("use_bias", True):
        bias = call.stored("bias", tuple(sizes), role="bias", inside="output_dense")
        made = broadcast(call.writer, "Add", [made, bias.reshaped((prod(sizes),))])
    if len(sizes) > 1:
        return Tensor(call.writer.add("Reshape", [made.value, call.writer.integers([0, 0, *sizes])]))
    return made


@layer_reader("Attention", "AdditiveAttention")
def attention(call: Call) -> list[Tensor]:
    """Scores by a product, or by a tanh of the sum; the values are weighted by their softmax."""
    writer, additive = call.writer, call.layer.type == "AdditiveAttention"
    if call.word("score_mode", "dot", ("dot", "concat")) == "concat":
        raise call.refuse("score_mode='concat' is not read; use AdditiveAttention")
    tensors = call.inputs
    if len(tensors) < 2:
        raise call.refuse("is given one tensor; expected a query and a value")
    query, value, key = tensors[0], tensors[1], tensors[2] if len(tensors) > 2 else tensors[1]
    if additive:
        scores = _summed(call, query, key)
    else:
        turned = writer.add("Transpose", [writer.source(key)], {"perm": [0, 2, 1]})
        scores = Tensor(writer.add("MatMul", [writer.source(query), turned]))
        if call.flag("use_scale", False):
            scale = call.stored("scale", (), role="scale")
            scores = broadcast(writer, "Mul", [scores, scale])
    weights = _weights(call, scores, _allowed(call, query, key, value, heads=False))
    made = Tensor(writer.add("MatMul", [weights.value, writer.source(value)]))
    asked = _argument_masks(call)
    query_mask = asked[0] if asked else call.mask(query)
    if query_mask is not None:
        column = writer.add("Unsqueeze", [writer.source(query_mask), writer.integers([-1])])
        counts = writer.add("Cast", [column], {"to": int(made.value.dtype or 1)})
        made = broadcast(writer, "Mul", [made, Tensor(counts)])
    made = call.masked(made, query_mask)
    return [made, weights] if call.kwargs.get("return_attention_scores") else [made]


def _summed(call: Call, query: Tensor, key: Tensor) -> Tensor:
    """Return ``sum(scale * tanh(query + key))`` over the features."""
    writer = call.writer
    wide_query = writer.add("Unsqueeze", [writer.source(query), writer.integers([2])])
    wide_key = writer.add("Unsqueeze", [writer.source(key), writer.integers([1])])
    both = unary(writer, "Tanh", broadcast(writer, "Add", [Tensor(wide_query), Tensor(wide_key)]))
    if call.flag("use_scale", True):
        (width,) = writer.known(query, [-1])
        both = broadcast(writer, "Mul", [both, call.stored("scale", (width,), role="scale")])
    return Tensor(writer.add("ReduceSum", [both.value, writer.integers([-1])], {"keepdims": 0}))


def _weights(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Return the softmax of the scores that count."""
    if allowed is not None:
        low = Tensor(call.writer.number(LARGE, scores.value))
        scores = broadcast(call.writer, "Where", [allowed, scores, low])
    return unary(call.writer, "Softmax", scores, {"axis": -1})


def _allowed(call: Call, query: Tensor, key: Tensor, value: Tensor, *, heads: bool) -> Tensor | None:
    """Return which scores (batch, T, S) count, with an axis for the heads; None where all do."""
    writer = call.writer
    parts: list[Tensor] = []
    asked = _argument_masks(call)
    masks = [call.mask(query), call.mask(value), call.mask(key) if key is not value else None]
    if asked:
        masks = [asked[0], asked[1], None]
    axes = (2, 1, 1) if heads else (None, 1, None)
    for mask, axis in zip(masks, axes, strict=True):
        if mask is not None and axis is not None:
            wide = writer.add("Unsqueeze", [writer.source(mask), writer.integers([axis])])
            parts.append(Tensor(wide))
    given = call.kwargs.get("attention_mask")
    if isinstance(given, Tensor):
        parts.append(Tensor(writer.add("Cast", [writer.source(given)], {"to": int(ir.DataType.BOOL)})))
    if call.kwargs.get("use_causal_mask") or call.flag("causal", False):
        parts.append(_earlier(call, writer.known(query, [1])[0], writer.known(key, [1])[0]))
    return _together(call, parts, heads=heads) if parts else None


def _earlier(call: Call, rows: int, columns: int) -> Tensor:
    """Return a mask by which a step sees itself and those before it."""
    if rows * columns > MAX_SCORES:
        raise call.refuse(f"a causal mask of {rows:,} x {columns:,} steps; at most {MAX_SCORES:,} are read")
    seen = np.tri(rows, columns, dtype=np.bool_)[None]
    return Tensor(call.writer.builder.constant(seen, dtype=np.bool_))


def _together(call: Call, parts: Sequence[Tensor], *, heads: bool) -> Tensor:
    made = parts[0]
    for part in parts[1:]:
        made = broadcast(call.writer, "And", [made, part])
    if heads and len(call.shape(made)) == 3:
        made = Tensor(call.writer.add("Unsqueeze", [made.value, call.writer.integers([1])]))
    return made


def _argument_masks(call: Call) -> list[Tensor | None]:
    """Return the masks of query and value that the call names, none if it names none."""
    given = call.kwargs.get("mask")
    if not isinstance(given, list) or not any(isinstance(mask, Tensor) for mask in given):
        return []
    masks = [mask if isinstance(mask, Tensor) else None for mask in given]
    return [*masks, None, None][:2]
