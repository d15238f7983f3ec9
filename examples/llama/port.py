"""A port of the decoder in ``reference.py``: other names, other operators, and one mistake."""

from __future__ import annotations

import torch
from torch import nn


class Norm(nn.Module):
    """Root mean square normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normalised features."""
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.scale


class Rotary(nn.Module):
    """Turns halves of each head by an angle that grows with the position."""

    def __init__(self, dim: int = 16, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim, self.base = dim, base

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return heads that know their position."""
        inverse = self.base ** (-torch.arange(0, self.dim, 2).float() / self.dim)
        angle = torch.arange(x.shape[-2])[:, None] * inverse
        a, b = x[..., : self.dim // 2], x[..., self.dim // 2 :]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), dim=-1)


class Block(nn.Module):
    """One layer of the decoder."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2, self.rotary = Norm(), Norm(), Rotary()
        self.qkv = nn.Linear(64, 64 + 32 + 32, bias=False)
        self.out = nn.Linear(64, 64, bias=False)
        self.gate_up = nn.Linear(64, 2 * 160, bias=False)
        self.down = nn.Linear(160, 64, bias=False)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each step takes from those before it."""
        q, k, v = self.qkv(x).split((64, 32, 32), dim=-1)
        q, k, v = (y.unflatten(-1, (-1, 16)).transpose(1, 2) for y in (q, k, v))
        k, v = (y[:, :, None].expand(-1, -1, 2, -1, -1).flatten(1, 2) for y in (self.rotary(k), v))
        y = nn.functional.scaled_dot_product_attention(self.rotary(q), k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the hidden states behind the layer."""
        x = x + self.attend(self.norm1(x))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(nn.functional.silu(gate) * up)


class Decoder(nn.Module):
    """The decoder: from tokens to a score of each token that may come next."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(128, 64)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = Norm()
        self.head = nn.Linear(64, 128, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return scores by sample, step and token."""
        return self.head(self.norm(self.blocks(self.tokens(tokens))))
