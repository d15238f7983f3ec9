"""Mistakes in the caches of decoders: are they found, at which place, and with which cause?

::

    python -m benchmarks decoders.cached --folder build/cached [--held-out] [--only NAME]
"""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import torch

import netweave
from benchmarks.decoders.scoring import WRONG_CASE, Row, compared, run_cases
from benchmarks.record import Namespace, Record, option
from benchmarks.source_module import source_module
from netweave.comparison.result.verdicts import Verdict
from tests.comparison.cached_decoders import Kept, Listed, drawn

TOKENS = 12

LEARNED = """
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index
        self.c_attn = nn.Linear(32, 96)
        self.c_proj = nn.Linear(32, 32)

    def forward(self, x, layer_past=None):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(32, dim=2)
        q, k, v = (y.view(b, t, 4, 8).transpose(1, 2) for y in (q, k, v))
        if layer_past is not None:
            past_key, past_value = layer_past
            EDIT_READ
            k = torch.cat((past_key, k), dim=-2)
            v = torch.cat((past_value, v), dim=-2)
        present = (k, v)
        s = k.size(-2)
        bias = torch.full((s, s), float("-inf")).triu(1)
        ROW
        att = (q @ k.transpose(-2, -1)) / math.sqrt(8) + bias[row : row + t, :s]
        EDIT_SCORES
        y = (F.softmax(att, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.c_proj(y), present


class Block(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.attn = CausalSelfAttention(index)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, x, layer_past=None):
        y, present = self.attn(self.ln_1(x), layer_past)
        x = x + y
        return x + self.mlp(self.ln_2(x)), present


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(61, 32), nn.Embedding(64, 32)
        self.h = nn.ModuleList([Block(i) for i in range(3)])
        self.ln_f, self.lm_head = nn.LayerNorm(32), nn.Linear(32, 61, bias=False)

    def forward(self, idx, layer_past=None):
        t = idx.size(1)
        before = layer_past[0][0].size(-2) if layer_past is not None else 0
        START
        pos = torch.arange(start, start + t, dtype=torch.long, device=idx.device)
        x = self.wte(idx) + self.wpe(pos)
        presents = []
        for i, block in enumerate(self.h):
            LAYER
            x, present = block(x, past)
            presents.append(present)
        return self.lm_head(self.ln_f(x)), presents
"""
"""A GPT-2 whose cache is a list of pairs, as it is returned."""

RING = """
import torch
import torch.nn.functional as F
from torch import nn

WINDOW = 8


class KVCache(nn.Module):
    def __init__(self, max_batch_size, heads, head_dim):
        super().__init__()
        shape = (max_batch_size, WINDOW, heads, head_dim)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("kept", torch.full((WINDOW,), -1), persistent=False)

    def update(self, input_pos, k, v):
        count, slots = k.shape[0], input_pos[-WINDOW:] % WINDOW
        SLOTS
        self.k_cache[:count, slots] = k[:, -WINDOW:]
        self.v_cache[:count, slots] = v[:, -WINDOW:]
        self.kept[slots] = input_pos[-WINDOW:]
        return self.k_cache[:count], self.v_cache[:count], self.kept


def rotate(x, pos):
    freqs = 10000.0 ** (-torch.arange(0, 8, 2).float() / 8)
    angle = pos.float()[:, None, None] * freqs
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = angle.cos(), angle.sin()
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index, self.kv_cache = index, None
        self.wq, self.wk = nn.Linear(32, 32, bias=False), nn.Linear(32, 16, bias=False)
        self.wv, self.wo = nn.Linear(32, 16, bias=False), nn.Linear(32, 32, bias=False)

    def forward(self, x, input_pos):
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, 4, 8)
        k, v = self.wk(x).view(b, t, 2, 8), self.wv(x).view(b, t, 2, 8)
        PLACES
        q, k = rotate(q, places), rotate(k, places)
        where = input_pos
        if self.kv_cache is not None:
            cached_k, cached_v, kept = self.kv_cache.update(input_pos, k, v)
            if t == 1:
                k, v, where = cached_k, cached_v, kept
                EDIT_READ
        far = QUERIES[:, None] - where[None, :]
        seen = (far >= 0) & (far < WINDOW) & (where >= 0)[None, :]
        EDIT_MASK
        q = q.transpose(1, 2)
        k, v = (y.transpose(1, 2).repeat_interleave(2, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
        return self.wo(y.transpose(1, 2).reshape(b, t, 32))


class TransformerBlock(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.attention = Attention(index)
        self.attention_norm, self.ffn_norm = nn.RMSNorm(32), nn.RMSNorm(32)
        self.w1, self.w2 = nn.Linear(32, 48, bias=False), nn.Linear(48, 32, bias=False)
        self.w3 = nn.Linear(32, 48, bias=False)

    def forward(self, x, input_pos):
        x = x + self.attention(self.attention_norm(x), input_pos)
        h = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok_embeddings = nn.Embedding(61, 32)
        self.layers = nn.ModuleList([TransformerBlock(i) for i in range(2)])
        self.norm, self.output = nn.RMSNorm(32), nn.Linear(32, 61, bias=False)

    def setup_caches(self, max_batch_size, max_seq_length):
        for layer in self.layers:
            layer.attention.kv_cache = KVCache(max_batch_size, 2, 8)
        SHARED

    def forward(self, idx, input_pos=None):
        if input_pos is None:
            input_pos = torch.arange(idx.shape[1])
        x = self.tok_embeddings(idx)
        for layer in self.layers:
            x = layer(x, input_pos)
        return self.output(self.norm(x))
"""
"""A Llama with grouped queries and a window, whose caches are modules that hold the window alone."""

PLAIN = {
    "EDIT_READ": "pass",
    "ROW": "row = s - t",
    "EDIT_SCORES": "pass",
    "START": "start = before",
    "LAYER": "past = layer_past[i] if layer_past is not None else None",
    "SLOTS": "pass",
    "PLACES": "places = input_pos",
    "QUERIES": "input_pos",
    "EDIT_MASK": "pass",
    "SHARED": "pass",
}

HELD_OUT = {
    "learned": (
        LEARNED,
        {
            "right": {},
            "positions": {"START": "start = 0"},
            "positions-ahead": {"START": "start = before + 1 if before else 0"},
            "mask-row": {"ROW": "row = 0"},
            "samples": {"EDIT_READ": "past_value = past_value.flip(0)"},
            "newest-lost": {
                "EDIT_SCORES": "att = att.masked_fill((torch.arange(s) == s - 1) & (t < s), -1e9)"
            },
            "one-place-off": {
                "EDIT_READ": "past_key = torch.cat((past_key[:, :, 1:], past_key[:, :, -1:]), 2)"
            },
            "other-layer": {"LAYER": "past = layer_past[0] if layer_past is not None else None"},
        },
    ),
    "ring": (
        RING,
        {
            "right": {},
            "positions": {"PLACES": "places = torch.arange(t)"},
            "positions-ahead": {"PLACES": "places = input_pos + (1 if t == 1 else 0)"},
            "mask-row": {"QUERIES": "torch.arange(t)"},
            "samples": {"EDIT_READ": "v = v.flip(0)"},
            "newest-lost": {
                "EDIT_MASK": "seen = seen & ((far > 0) if t == 1 and int(input_pos[0]) else True)"
            },
            "one-place-off": {
                "SLOTS": "slots = (slots + 1).clamp(max=WINDOW - 1) if len(slots) == 1 else slots"
            },
            "window": {"EDIT_MASK": "seen = (where >= 0)[None, :].expand(t, -1) if t == 1 else far >= 0"},
            "turned-twice": {"EDIT_READ": "k = rotate(k, kept.clamp(min=0))"},
            "other-layer": {
                "SHARED": "self.layers[1].attention.kv_cache = self.layers[0].attention.kv_cache"
            },
        },
    ),
}
"""Text and mistakes of the families that nothing was written against."""

SEEN = {
    "listed": (Listed, ("", "positions", "positions-ahead", "causal", "window", "turned-twice", "last-lost")),
    "kept": (Kept, ("", "rows", "mask-row", "writes", "samples", "swapped")),
}
"""Families that the mechanism was written with (``tests/comparison/cached_decoders.py``)."""


def weighted(net: Any) -> Any:
    """Return a net with drawn weights."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for x in net.parameters():
            noise = torch.randn(x.shape, generator=generator)
            x.copy_(1 + 0.2 * noise if x.ndim == 1 else 1.2 * noise / math.sqrt(x.shape[-1]))
    return net.eval()


def made(folder: Path, family: str, mistake: str) -> Any:
    """Return a net of a held-out family, from its written source."""
    text, mistakes = HELD_OUT[family]
    for name, line in (PLAIN | mistakes[mistake]).items():
        text = text.replace(name, line)
    path = folder / f"{family}_{mistake.replace('-', '_')}.py"
    path.write_text(text)
    return weighted(source_module(path).Net())


def stepped(net: Any, family: str, ids: torch.Tensor, first: int) -> torch.Tensor:
    """Return what a net of a held-out family gives, called as its family is: some tokens, then one each."""
    with torch.no_grad():
        cache, outputs, start = None, [], 0
        if family == "ring":
            net.setup_caches(len(ids), ids.shape[1])
        for end in range(first, ids.shape[1] + 1):
            tokens = ids[:, start:end]
            if family == "ring":
                outputs.append(net(tokens, torch.arange(start, end)))
            else:
                output, cache = net(tokens, cache)
                outputs.append(output)
            start = end
        if family == "ring":
            for layer in net.layers:
                layer.attention.kv_cache = None
    return torch.cat(outputs, 1)


def truth_of(net: Any, family: str) -> float:
    """Return how far steps of a net are from one pass."""
    ids = torch.randint(61, (2, 20), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        passed = net(ids)
    whole = passed[0] if isinstance(passed, tuple) else passed
    errors = [(stepped(net, family, ids, first) - whole).abs().max() for first in (1, 10)]
    return float(max(errors) / whole.square().mean().sqrt())


def row_of(family: str, mistake: str, folder: Path) -> Row:
    """Return what a comparison with the right net of the family says of one case."""
    row: Row = {"is_mistake": mistake not in {"", "right"}}
    if family in SEEN:
        kind = SEEN[family][0]
        a, b, tokens = drawn(kind()), drawn(kind(mistake)), "ids"
    else:
        a, b, tokens = made(folder, family, "right"), made(folder, family, mistake), "idx"
        row["truth"] = truth_of(b, family)
        if (row["truth"] > WRONG_CASE) != row["is_mistake"]:
            return row | {"said": "the case is wrong", "outcome": "case"}
    sizes = {tokens: (1, TOKENS)}
    comparison = compared(
        row, lambda: netweave.compare(*(netweave.load(net, input_shapes=sizes) for net in (a, b)))
    )
    if comparison is None:
        return row | {"outcome": "error"}
    row["probes"], row["sentence"] = list(comparison.probes[-1:]), comparison.sentence
    first = comparison.findings[:1]
    place = "wpe" if family == "learned" and mistake.startswith("positions") else "att"
    row["place"] = bool(first) and place in first[0].layer_b
    row["named"] = bool(first) and "sees the same tokens before it" not in first[0].cause
    row["outcome"] = "different" if comparison.verdict is Verdict.DIFFERENT else "equal"
    return row


OPTIONS = (
    option("--folder", default=Path("build/cached")),
    option("--held-out", default=False, help="the families that are held out"),
    option("--only", default="", help="part of a name"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the cases, and print the counts."""
    options.folder.mkdir(parents=True, exist_ok=True)
    families = (
        {family: tuple(HELD_OUT[family][1]) for family in HELD_OUT}
        if options.held_out
        else {family: SEEN[family][1] for family in SEEN}
    )
    cases = {
        f"{family}:{mistake or 'right'}": partial(row_of, family, mistake, options.folder)
        for family, mistakes in families.items()
        for mistake in mistakes
        if options.only in f"{family}:{mistake or 'right'}"
    }
    rows = run_cases(cases, record)
    for is_mistake in (True, False):
        chosen = [row for row in rows if row["is_mistake"] == is_mistake]
        counts = {name: sum(row["outcome"] == name for row in chosen) for name in ("different", "equal")}
        place, named = (sum(bool(row.get(key)) for row in chosen) for key in ("place", "named"))
        print("mistakes" if is_mistake else "right", len(chosen), counts, "place", place, "named", named)
