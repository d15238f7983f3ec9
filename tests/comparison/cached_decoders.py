"""Tiny decoders with a cache that is returned, or kept in buffers, each with mistakes to choose from."""

from __future__ import annotations

import torch
from torch import nn

WIDTH, HEADS, HEAD, MOST, WINDOW = 16, 2, 8, 48, 6


def turned(x, angles):
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def angles_of(places):
    return places.float()[:, None] * 100.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)


class Attention(nn.Module):
    """What both kinds share."""

    def __init__(self, mistake):
        super().__init__()
        self.mistake = mistake
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)

    def heads(self, x):
        count, steps, _ = x.shape
        return [y.view(count, steps, HEADS, HEAD).transpose(1, 2) for y in self.qkv(x).chunk(3, -1)]

    def joined(self, y):
        return self.out(y.transpose(1, 2).flatten(2))


class ListedAttention(Attention):
    def forward(self, x, past):
        q, k, v = self.heads(x)
        steps = x.shape[1]
        before = past[0].shape[2] if past is not None else 0
        angles = angles_of(self.where(before, steps))
        q = turned(q, angles)
        k = turned(k, angles)
        if past is not None:
            if self.mistake == "turned-twice":
                past = turned(past[0], angles_of(torch.arange(before))), past[1]
            keep = -1 if self.mistake == "last-lost" and before > 1 else before
            k = torch.cat((past[0][:, :, :keep], k), 2)
            v = torch.cat((past[1][:, :, :keep], v), 2)
        cached = (k, v)
        if self.mistake == "causal":
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.joined(y), cached
        far = (torch.arange(steps) + k.shape[2] - steps)[:, None] - torch.arange(k.shape[2])
        seen = far >= 0
        if not (self.mistake == "window" and before):
            seen = seen & (far < WINDOW)
        return self.joined(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)), cached

    def where(self, before, steps):
        if self.mistake == "positions":
            before = 0
        ahead = self.mistake == "positions-ahead" and before > 0
        return torch.arange(before + ahead, before + ahead + steps)  # def where


class KeptAttention(Attention):
    def __init__(self, mistake):
        super().__init__(mistake)
        angles = angles_of(torch.arange(MOST))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        far = torch.arange(MOST)[:, None] - torch.arange(MOST)
        self.register_buffer("mask", (far >= 0) & (far < WINDOW), persistent=False)
        self.register_buffer("held_k", torch.zeros(4, HEADS, MOST, HEAD), persistent=False)
        self.register_buffer("held_v", torch.zeros(4, HEADS, MOST, HEAD), persistent=False)

    def forward(self, x, start):
        q, k, v = self.heads(x)
        count, steps, _ = x.shape
        at = 0 if self.mistake == "rows" else start
        cos, sin = self.cos[at : at + steps], self.sin[at : at + steps]
        q, k = ((torch.cat((-y[..., HEAD // 2 :], y[..., : HEAD // 2]), -1) * torch.cat((sin, sin), -1)) + y * torch.cat((cos, cos), -1) for y in (q, k))  # fmt: skip  # noqa: E501
        to = start + 1 if self.mistake == "writes" and start else start
        self.held_k[:count, :, to : to + steps] = k  # self.keys[
        self.held_v[:count, :, to : to + steps] = v  # self.keys[
        k, v = self.held_k[:count, :, : start + steps], self.held_v[:count, :, : start + steps]
        if self.mistake == "swapped" and start:
            k = k.roll(1, 2)
        if self.mistake == "samples" and start:
            v = v.flip(0)
        row = 0 if self.mistake == "mask-row" else start
        seen = self.mask[row : row + steps, : start + steps]
        return self.joined(nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention, self.norm = attention, nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 24), nn.Linear(24, WIDTH)

    def forward(self, x, given):
        made = self.attention(self.norm(x), given)
        y, cache = made if isinstance(made, tuple) else (made, None)
        x = x + y
        return x + self.down(torch.relu(self.up(x))), cache


class Decoder(nn.Module):
    def __init__(self, kind, mistake):
        super().__init__()
        self.mistake = mistake
        self.embed = nn.Embedding(17, WIDTH)
        self.layers = nn.ModuleList(Layer(kind(mistake)) for _ in range(2))
        self.head = nn.Linear(WIDTH, 17, bias=False)


class Listed(Decoder):
    """A cache of keys and values for each layer, which is returned."""

    def __init__(self, mistake=""):
        super().__init__(ListedAttention, mistake)

    def forward(self, ids, past_key_values=None, use_cache=False):
        x, caches = self.embed(ids), []
        for layer, past in zip(self.layers, past_key_values or [None] * len(self.layers), strict=True):
            x, cache = layer(x, past)
            caches.append(cache)
        return (self.head(x), caches) if use_cache else self.head(x)


class Kept(Decoder):
    """A cache in buffers whose names do not say so, and the place of the first token."""

    def __init__(self, mistake=""):
        super().__init__(KeptAttention, mistake)

    def forward(self, ids, start_pos: int = 0):
        x = self.embed(ids)
        for layer in self.layers:
            x, _ = layer(x, start_pos)
        return self.head(x)


def drawn(net):
    """Return a net that predicts, with drawn weights."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, x in net.named_parameters():
            noise = torch.randn(x.shape, generator=generator)
            x.copy_(1 + 0.1 * noise if "norm.weight" in name else 0.4 * noise if x.ndim > 1 else 0.1 * noise)
    return net.eval()
