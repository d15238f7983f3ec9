"""Rotary position embedding; see ``graph.ops.rotary``."""

from __future__ import annotations

import torch
from torch import Tensor

from netweave.runtime.backends.torch.table import lowering


@lowering("RotaryEmbedding", since=1, domain="netweave")
def rotary_embedding(x: Tensor, cosines: Tensor, sines: Tensor, *, interleaved: int = 0) -> Tensor:
    """Turn pairs of features: neighbours, or the two halves."""
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cosines - second * sines, first * sines + second * cosines
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
