"""Attention, by torch's own function for it; written source holds a copy of ``attention``."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (the copy in written source says F)

from netweave.runtime.backends.torch.kernels import PLAIN, Kernels
from netweave.runtime.backends.torch.operator_table import lowering


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    num_heads: int,
    scale: float | None = None,
    is_causal: bool = False,
) -> Tensor:
    """Attend by several heads, which stand one after another in the last axis."""
    q, k, v = (x.unflatten(-1, (num_heads, -1)).transpose(1, 2) for x in (query, key, value))
    x = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
    return x.transpose(1, 2).flatten(2)


@lowering("Attention", since=1, domain="netweave")
def attention_operator(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    num_heads: int = 0,
    is_causal: int = 0,
    softcap: float = 0.0,
) -> Tensor:
    """Attend by heads that stand in the last axis, or have one of their own."""
    if softcap:
        query, key, value = (
            x.unflatten(-1, (num_heads, -1)).transpose(1, 2) if num_heads else x for x in (query, key, value)
        )
        made = _capped(query, key, value, mask, scale=scale, is_causal=bool(is_causal), softcap=softcap)
        return made.transpose(1, 2).flatten(2) if num_heads else made
    if num_heads:
        return attention(query, key, value, mask, num_heads=num_heads, scale=scale, is_causal=bool(is_causal))
    return F.scaled_dot_product_attention(query, key, value, mask, is_causal=bool(is_causal), scale=scale)


def _capped(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    *,
    scale: float,
    is_causal: bool,
    softcap: float,
) -> Tensor:
    """Attend with scores that a soft cap bends."""
    scores = softcap * (query @ key.transpose(-1, -2) * (scale / softcap)).tanh()
    if is_causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    return scores.softmax(-1) @ value


@lowering("MultiHeadAttention", since=1, domain="netweave")
def multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    query_weight: Tensor,
    query_bias: Tensor,
    key_weight: Tensor,
    key_bias: Tensor,
    value_weight: Tensor,
    value_bias: Tensor,
    output_weight: Tensor,
    output_bias: Tensor,
    *,
    num_heads: int,
    scale: float,
    is_causal: int = 0,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Attend between dense layers."""
    q = kernels.linear(query, query_weight.t(), query_bias)
    k = kernels.linear(key, key_weight.t(), key_bias)
    v = kernels.linear(value, value_weight.t(), value_bias)
    x = attention(q, k, v, num_heads=num_heads, scale=scale, is_causal=bool(is_causal))
    return kernels.linear(x, output_weight.t(), output_bias)
