"""A decoder of the Llama family in plain PyTorch, the net that the port must equal.

Small on purpose: two layers, four query heads and two of keys and values. Nothing but PyTorch is needed.
"""

from __future__ import annotations

import torch
from torch import nn

VOCABULARY, WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS = 128, 64, 4, 2, 160, 2
HEAD = WIDTH // HEADS
THETA, EPSILON = 500_000.0, 1e-5


class RMSNorm(nn.Module):
    """Divides by the root mean square, and scales each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normalised features."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPSILON))


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """Return the second half of each head with the opposite sign, and then the first."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Rotary(nn.Module):
    """Turns pairs of features by angles that grow with the position."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return heads that know their position."""
        frequencies = 1.0 / THETA ** (torch.arange(0, HEAD, 2).float() / HEAD)
        angles = torch.outer(torch.arange(x.shape[-2]).float(), frequencies)
        both = torch.cat((angles, angles), dim=-1)
        return x * both.cos() + rotate_half(x) * both.sin()


class Attention(nn.Module):
    """Causal attention of grouped heads, with rotary position embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.rotary = Rotary()
        self.q_proj = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k_proj = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.v_proj = nn.Linear(WIDTH, KV_HEADS * HEAD, bias=False)
        self.o_proj = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what each step takes from those before it, and from itself."""
        batch, length, _ = x.shape
        query = self.q_proj(x).view(batch, length, HEADS, HEAD).transpose(1, 2)
        key = self.k_proj(x).view(batch, length, KV_HEADS, HEAD).transpose(1, 2)
        value = self.v_proj(x).view(batch, length, KV_HEADS, HEAD).transpose(1, 2)
        query, key = self.rotary(query), self.rotary(key)
        key = key.repeat_interleave(HEADS // KV_HEADS, dim=1)
        value = value.repeat_interleave(HEADS // KV_HEADS, dim=1)
        scores = query @ key.transpose(-2, -1) / HEAD**0.5
        later = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(dim=-1)
        return self.o_proj((weights @ value).transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """A gated feed-forward network."""

    def __init__(self) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up_proj = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down_proj = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return what the gate lets through."""
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and a feed-forward network, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.input_layernorm, self.self_attn = RMSNorm(), Attention()
        self.post_attention_layernorm, self.mlp = RMSNorm(), MLP()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the hidden states behind the layer."""
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """The decoder: from tokens to a score of each token that may come next."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = RMSNorm()
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        """Return scores by sample, step and token."""
        x = self.embed_tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))
