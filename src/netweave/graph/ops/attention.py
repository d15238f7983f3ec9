"""Attention and rotary embeddings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netweave.graph.operators import Attributes, Dim, operator

# N examples, L queries, S keys, H heads, D features of each head, E features of each step.


def _attention_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    query, key, value = shapes[:3]
    num_heads = attributes.get("num_heads", 0)
    rank = 3 if num_heads else 4
    for name, shape in (("query", query), ("key", key), ("value", value)):
        if len(shape) != rank:
            raise ValueError(f"a {name} with {len(shape)} axes, expected {rank}")
    for shape in (query, key, value) if num_heads else ():
        if isinstance(shape[-1], int) and shape[-1] % num_heads:
            raise ValueError(f"{shape[-1]} features, expected a multiple of the {num_heads} heads")
    return [(*query[:-1], value[-1])]


def _projected_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    query, output_weight = shapes[0], shapes[9]
    if len(query) != 3:
        raise ValueError(f"a query with {len(query)} axes, expected 3: batch, steps, features")
    return [(*query[:-1], output_weight[-1])]


def _attend(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    mask: np.ndarray | None,
    attributes: Attributes,
) -> np.ndarray:
    """Return the values of each head weighted by the softmax of the scores: (N, H, L, D)."""
    scores = query @ np.swapaxes(key, -1, -2) * np.float32(attributes["scale"])
    if cap := attributes.get("softcap", 0.0):
        scores = np.tanh(scores / np.float32(cap)) * np.float32(cap)
    if attributes.get("is_causal", 0):
        allowed = np.tri(*scores.shape[-2:], dtype=np.bool_)
        scores = np.where(allowed, scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(weights / weights.sum(-1, keepdims=True) @ value)


def _heads(x: np.ndarray, num_heads: int) -> np.ndarray:
    """Return (N, H, L, D) of (N, L, H * D)."""
    return x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)


@operator("Attention", shapes=_attention_shapes, defaults={"num_heads": 0, "is_causal": 0, "softcap": 0.0})
def attention(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """ONNX Attention-23: ``softmax(scale * query @ key.T + mask) @ value`` for each head.

    Inputs: query (N, L, H * D), key (N, S, H * D), value (N, S, H * Dv), and a mask for (N, H, L, S), which
    is added, or of booleans, True where a score counts.
    Attributes: ``num_heads``; 0 where the inputs have an axis for the heads, (N, H, L, D). ``scale``.
    ``is_causal``: no query sees a later key. ``softcap``: scores are ``softcap * tanh(scores / softcap)``
    before the mask; 0 for none.
    """
    query, key, value = inputs[:3]
    mask = inputs[3] if len(inputs) > 3 else None
    num_heads = attributes.get("num_heads", 0)
    if not num_heads:
        return [_attend(query, key, value, mask, attributes).astype(query.dtype)]
    q, k, v = (_heads(x, num_heads) for x in (query, key, value))
    made = _attend(q, k, v, mask, attributes)
    return [made.swapaxes(1, 2).reshape(*query.shape[:2], -1).astype(query.dtype)]


@operator("MultiHeadAttention", shapes=_projected_shapes, defaults={"is_causal": 0})
def multi_head_attention(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """Attention with its four dense layers, as torch.nn.MultiheadAttention and keras.layers have it.

    Inputs: query (N, L, E), key and value (N, S, E); weight (E, H * D) and bias (H * D,) of the dense layers
    before query, key and value; weight (H * D, E) and bias (E,) of the one behind.
    Attributes: ``num_heads``, ``scale``, ``is_causal``, as of Attention.
    """
    sequences, arrays = inputs[:3], inputs[3:11]
    projected = [x @ arrays[2 * i] + arrays[2 * i + 1] for i, x in enumerate(sequences)]
    (made,) = attention(projected, attributes)
    return [(made @ arrays[6] + arrays[7]).astype(sequences[0].dtype)]


def _rotary_shapes(shapes: Sequence[tuple[Dim, ...]], attributes: Attributes) -> Sequence[tuple[Dim, ...]]:
    x, *tables = shapes
    features = attributes.get("rotary_dim", 0) or (x[-1] if x else 0)
    if isinstance(features, int) and (features == 0 or features % 2):
        raise ValueError(f"{features} features, expected an even number")
    for name, table in zip(("cosines", "sines"), tables, strict=True):
        half = table[-1]
        if isinstance(features, int) and isinstance(half, int) and 2 * half != features:
            raise ValueError(f"{half} {name} for {features} features, expected half as many")
    return [x]


@operator("RotaryEmbedding", shapes=_rotary_shapes, defaults={"interleaved": 0, "rotary_dim": 0})
def rotary_embedding(inputs: Sequence[np.ndarray], attributes: Attributes) -> Sequence[np.ndarray]:
    """ONNX RotaryEmbedding-23: each pair of features is turned by an angle of its own at each position.

    Inputs: values (..., steps, features), and cosines and sines of (..., steps, features / 2), which are
    broadcast over the axes in front.
    Attributes: ``interleaved``: 1 where neighbours are pairs, 0 where feature ``i`` and ``i + features / 2``
    are. ``rotary_dim``: only so many first features are turned; 0 for all.
    """
    whole, cosines, sines = inputs
    x, rest = np.split(whole, [attributes.get("rotary_dim", 0) or whole.shape[-1]], axis=-1)
    if attributes.get("interleaved", 0):
        first, second = x[..., ::2], x[..., 1::2]
    else:
        first, second = np.split(x, 2, axis=-1)
    turned = first * cosines - second * sines, first * sines + second * cosines
    if attributes.get("interleaved", 0):
        joined = np.stack(turned, axis=-1).reshape(x.shape)
    else:
        joined = np.concatenate(turned, axis=-1)
    return [np.concatenate((joined, rest), axis=-1).astype(x.dtype)]
