"""Source text of tiny decoders whose features show on long, padded or cached inputs alone, in two spellings.

The original is written as Transformers writes its models: a configuration, ``rotate_half``, an added mask.
The port is somebody's own code: numbers in the text, rotations by ``cat``, ``masked_fill`` or SDPA.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

Features = dict[str, Any]
"""Settings of a decoder by name: those of ``Config`` in the original's text, and what a mistake adds."""

VOCABULARY = 53

ORIGINAL = """
import math

import torch
from torch import nn


class Config:
    vocab_size = 53
    hidden_size = 32
    num_attention_heads = 2
    head_dim = 16
    intermediate_size = 48
    num_hidden_layers = 2
    rope_theta = 10000.0
    rms_norm_eps = 1e-5

    def __init__(self, **settings):
        for name, value in settings.items():
            setattr(self, name, value)

    def get(self, name, default=None):
        return getattr(self, name, default)


class RMSNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.hidden_size))
        self.variance_epsilon = config.rms_norm_eps

    def forward(self, hidden_states):
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def forward(self, position_ids, length):
        config = self.config
        dim, theta = config.head_dim, config.rope_theta
        if config.get("dynamic_factor") and length > config.original_max_position_embeddings:
            ratio = config.dynamic_factor * length / config.original_max_position_embeddings
            theta = theta * (ratio - (config.dynamic_factor - 1)) ** (dim / (dim - 2))
        inv_freq = 1.0 / theta ** (torch.arange(0, dim, 2).float() / dim)
        if config.get("long_factor"):
            is_long = length > config.original_max_position_embeddings
            inv_freq = inv_freq / (config.long_factor if is_long else config.short_factor)
        freqs = position_ids[..., None].float() * inv_freq
        emb = torch.cat((freqs, freqs), dim=-1)
        return emb.cos()[:, None], emb.sin()[:, None]


def bucket_of(distance, num_buckets, max_distance):
    exact = num_buckets // 2
    far = exact + (
        torch.log(distance.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (num_buckets - exact)
    ).long()
    return torch.where(distance < exact, distance, far.clamp(max=num_buckets - 1))


class Attention(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.config, self.layer_idx = config, layer_idx
        width = config.hidden_size
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.rotary = Rotary(config)
        if config.get("num_buckets"):
            self.relative_attention_bias = nn.Embedding(config.num_buckets, config.num_attention_heads)

    def forward(self, hidden_states, position_ids, attention_mask=None, past=None):
        config = self.config
        batch, length, _ = hidden_states.shape
        shape = (batch, length, config.num_attention_heads, config.head_dim)
        query = self.q_proj(hidden_states).view(shape).transpose(1, 2)
        key = self.k_proj(hidden_states).view(shape).transpose(1, 2)
        value = self.v_proj(hidden_states).view(shape).transpose(1, 2)
        if config.get("is_rotary", True):
            cos, sin = self.rotary(position_ids, length)
            query = query * cos + rotate_half(query) * sin
            key = key * cos + rotate_half(key) * sin
        steps = torch.arange(length)
        if config.get("log_base"):
            query = query * (torch.log(steps + 1.0) / math.log(config.log_base)).clamp(min=1)[:, None]
        if config.get("floor_scale"):
            temperature = torch.log(torch.floor((steps + 1.0) / config.floor_scale) + 1.0) * 0.5 + 1.0
            query = query * temperature[:, None]
        if past is not None:
            key, value = torch.cat((past[0], key), dim=2), torch.cat((past[1], value), dim=2)
        before = key.shape[2] - length
        seen = torch.arange(key.shape[2])
        distance = (steps + before)[:, None] - seen[None]
        allowed = distance >= 0
        window = config.get("sliding_window")
        if window and self.layer_idx in config.get("window_layers", [0, 1]):
            near = distance < window
            if config.get("num_sinks"):
                near = near | (seen < config.num_sinks)[None]
            allowed = allowed & near
        if config.get("attention_chunk_size"):
            size = config.attention_chunk_size
            allowed = allowed & ((steps // size)[:, None] == (seen // size)[None])
        allowed = allowed[None, None]
        if attention_mask is not None:
            allowed = allowed & (attention_mask[:, None, None, :] != 0)
        scores = torch.matmul(query, key.transpose(2, 3)) * config.head_dim**-0.5
        if config.get("has_alibi"):
            slopes = 2.0 ** -(torch.arange(config.num_attention_heads) + 3.0)
            scores = scores - slopes[:, None, None] * distance
        if config.get("num_buckets"):
            bucket = bucket_of(distance.clamp(min=0), config.num_buckets, config.max_distance)
            scores = scores + self.relative_attention_bias(bucket).permute(2, 0, 1)
        lowest = torch.finfo(scores.dtype).min
        scores = scores + torch.where(allowed, 0.0, lowest)
        probs = torch.softmax(scores, dim=-1, dtype=torch.float32)
        output = torch.matmul(probs, value).transpose(1, 2).reshape(batch, length, -1)
        return self.o_proj(output)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    def __init__(self, config, layer_idx):
        super().__init__()
        self.input_layernorm = RMSNorm(config)
        self.self_attn = Attention(config, layer_idx)
        self.post_attention_layernorm = RMSNorm(config)
        self.mlp = MLP(config)

    def forward(self, hidden_states, *rest):
        hidden_states = hidden_states + self.self_attn(self.input_layernorm(hidden_states), *rest)
        return hidden_states + self.mlp(self.post_attention_layernorm(hidden_states))


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.get("max_position_embeddings"):
            self.embed_positions = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.layers = nn.ModuleList([DecoderLayer(config, i) for i in range(config.num_hidden_layers)])
        self.norm = RMSNorm(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, input_ids, attention_mask=None, position_ids=None, past_key=None, past_value=None):
        length = input_ids.shape[1]
        before = past_key.shape[2] if past_key is not None else 0
        if position_ids is None and attention_mask is not None and self.config.get("counts_mask"):
            position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)
        elif position_ids is None:
            position_ids = torch.arange(before, before + length)[None]
        hidden_states = self.embed_tokens(input_ids)
        if self.config.get("max_position_embeddings"):
            hidden_states = hidden_states + self.embed_positions(position_ids)
        past = (past_key, past_value) if past_key is not None else None
        for layer in self.layers:
            hidden_states = layer(hidden_states, position_ids, attention_mask, past)
        return self.lm_head(self.norm(hidden_states))
"""


def original_text(features: Features) -> str:
    """Return the source of an original; its class is ``Net``."""
    settings = json.dumps(features).replace("true", "True").replace("false", "False")
    return f"{ORIGINAL}\n\nclass Net(Model):\n    def __init__(self):\n        super().__init__(Config(**{settings}))\n"


def port_text(features: Features) -> str:
    """Return the source of a port; its class is ``Net``."""
    parts = _parts(features)
    arguments = ", ".join(["ids", *(f"{name}=None" for name in features.get("arguments", ()))])
    buffers = [f"        self.register_buffer('tril', {parts['buffer']}, persistent=False)"] * bool(
        parts["buffer"]
    )
    buckets = features.get("num_buckets", 0)
    bias = [f"        self.rel = nn.Embedding({buckets}, 2)"] * bool(buckets)
    table = [f"        self.wpe = nn.Embedding({parts['rows']}, 32)"] * bool(parts["rows"])
    lines = [
        "import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n",
        "class Norm(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.g = nn.Parameter(torch.ones(32))\n\n    def forward(self, x):\n"
        "        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.g\n\n",
        "def turn(x, angle):\n    cos, sin = angle.cos(), angle.sin()\n    a, b = x.chunk(2, dim=-1)\n"
        "    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)\n\n",
        "class Block(nn.Module):\n    def __init__(self, index):\n        super().__init__()\n        self.index = index",
        "        self.n1, self.n2 = Norm(), Norm()\n        self.qkv = nn.Linear(32, 96, bias=False)",
        "        self.out = nn.Linear(32, 32, bias=False)\n        self.w1 = nn.Linear(32, 48, bias=False)",
        "        self.w2 = nn.Linear(48, 32, bias=False)\n        self.w3 = nn.Linear(32, 48, bias=False)",
        *buffers,
        *bias,
        "\n    def attend(self, x, where, mask, past_key, past_value):\n        b, t, _ = x.shape",
        "        q, k, v = (y.view(b, t, 2, 16).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))",
        *parts["rotary"],
        *parts["queries"],
        "        if past_key is not None:\n            k = torch.cat((past_key, k), dim=2)",
        "            v = torch.cat((past_value, v), dim=2)",
        "        s = k.shape[2]\n        j = torch.arange(s)",
        f"        i = torch.arange(t) + {parts['shift']}\n        apart = i[:, None] - j",
        *parts["allowed"],
        *_attention(features, parts),
        "        return self.out(y.transpose(1, 2).reshape(b, t, 32))\n",
        "    def forward(self, x, *rest):\n        x = x + self.attend(self.n1(x), *rest)",
        "        h = self.n2(x)\n        return x + self.w2(F.silu(self.w1(h)) * self.w3(h))\n\n",
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()",
        f"        self.wte = nn.Embedding({VOCABULARY}, 32)\n        self.h = nn.ModuleList(Block(i) for i in range(2))",
        *table,
        f"        self.f = Norm()\n        self.head = nn.Linear(32, {VOCABULARY}, bias=False)\n",
        f"    def forward(self, {arguments}):\n        t = ids.shape[1]",
        *(f"        {name} = None" for name in ARGUMENTS if name not in features.get("arguments", ())),
        *parts["where"],
        "        x = self.wte(ids)",
        *parts["table"],
        "        for block in self.h:\n            x = block(x, where, mask, past_key, past_value)",
        "        return self.head(self.f(x))\n",
    ]
    return "\n".join(lines)


def _attention(f: Features, parts: dict[str, Any]) -> list[str]:
    """Return the lines from queries, keys and ``ok`` to what attention gives."""
    if f.get("spelling") == "sdpa":
        allowed = "        allowed = ok"
        if parts["bias"]:
            allowed = "        allowed = torch.where(ok, scores, float('-inf'))"
        lines = ["        scores = torch.zeros(1)", *parts["bias"], allowed]
        return [*lines, "        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)"]
    lines = ["        scores = q @ k.transpose(-1, -2) / 4.0", *parts["bias"]]
    if f.get("spelling") == "added":
        added = ["        scores = scores + (1.0 - ok.float()) * -1e9"]
        if "mask" in f.get("arguments", ()):
            added += ["        if mask is not None:"]
            added += [
                "            scores = scores + (1.0 - mask[:, None, None].float()) * torch.finfo(scores.dtype).min"
            ]
        return [*lines, *added, "        y = torch.einsum('bhij,bhjd->bhid', scores.softmax(-1), v)"]
    masked = "        scores = scores.masked_fill(~ok, float('-inf'))"
    return [*lines, masked, "        y = F.softmax(scores, dim=-1) @ v"]


ARGUMENTS = ("mask", "positions", "past_key", "past_value")
"""Arguments that a port's ``forward`` may have besides the tokens."""


def _parts(features: Features) -> dict[str, Any]:
    """Return the lines of a port that its features are written in."""
    rows = features.get("rows", features.get("max_position_embeddings", 0))
    buffer = features.get("buffer") or features.get("open_buffer")
    return {
        "rotary": _rotary(features) if features.get("is_rotary", True) else [],
        "queries": _queries(features),
        "allowed": _allowed(features) + _masked(features),
        "buffer": f"torch.ones({buffer}, {buffer}, dtype=torch.bool).tril()" if buffer else "",
        "bias": _bias(features),
        "where": _where(features),
        "rows": rows,
        "table": ["        x = x + self.wpe(where)"] if rows else [],
        "shift": "0" if features.get("is_aligned_left") else "(s - t)",
    }


def _rotary(f: Features) -> list[str]:
    lines = ["        theta = 10000.0"]
    first = f.get("original_max_position_embeddings")
    if factor := f.get("dynamic_factor"):
        lines += [
            f"        if t > {first}:",
            f"            theta = theta * ({factor} * t / {first} - ({factor} - 1)) ** (16 / 14)",
        ]
    lines += ["        rate = theta ** (-torch.arange(0, 16, 2).float() / 16)"]
    if f.get("long_factor"):
        lines += [f"        rate = rate / ({f['long_factor']} if t > {first} else {f['short_factor']})"]
    position = "where.to(torch.bfloat16).float()" if f.get("is_bf16") else "where.float()"
    return [
        *lines,
        f"        angle = ({position}[..., None] * rate)[:, None]",
        "        q, k = turn(q, angle), turn(k, angle)",
    ]


def _queries(f: Features) -> list[str]:
    lines = []
    if f.get("log_base"):
        scale = f"torch.log(torch.arange(1, t + 1).float()) / math.log({f['log_base']})"
        lines.append(f"        q = q * ({scale}).clamp(min=1.0).view(1, 1, t, 1)")
    if f.get("floor_scale"):
        scale = f"1 + 0.5 * torch.log1p(((torch.arange(t) + 1) // {f['floor_scale']}).float())"
        lines.append(f"        q = q * ({scale}).view(1, 1, t, 1)")
    return lines


def _allowed(f: Features) -> list[str]:
    lines = ["        ok = apart >= 0"]
    if f.get("buffer"):
        lines = ["        ok = self.tril[:t, :t]"]
    if f.get("open_buffer"):
        lines = [
            f"        more = max(0, t - {f['open_buffer']})",
            "        ok = F.pad(self.tril[:t, :t], (0, more, 0, more), value=True)",
        ]
    if f.get("sliding_window"):
        near = f"apart < {f['sliding_window']}"
        near = f"({near}) | (j < {f['num_sinks']})" if f.get("num_sinks") else near
        layers = f.get("window_layers", [0, 1])
        lines += [f"        if self.index in {layers}:", f"            ok = ok & ({near})"]
    if f.get("attention_chunk_size"):
        size = f["attention_chunk_size"]
        lines.append(f"        ok = ok & (torch.arange(t)[:, None] // {size} == j // {size})")
    return lines


def _masked(f: Features) -> list[str]:
    ways = {
        "": "",
        "keys": "ok & (mask != 0)[:, None, None]",
        "queries": "ok & ((mask != 0)[:, None, :, None] | (apart == 0))",
        "lengths": "ok & (j < (mask != 0).sum(-1, keepdim=True))[:, None, None]",
    }
    if f.get("spelling") == "added":
        return []
    way = ways[f.get("masked", "keys" if "mask" in f.get("arguments", ()) else "")]
    return ["        if mask is not None:", f"            ok = {way}"] if way else []


def _bias(f: Features) -> list[str]:
    lines = []
    if f.get("has_alibi"):
        far = f"apart.clamp(max={f['alibi_limit']})" if f.get("alibi_limit") else "apart"
        lines.append(f"        scores = scores - torch.tensor([[[0.125]], [[0.0625]]]) * {far}")
    if f.get("num_buckets"):
        count, half, most = f["num_buckets"], f["num_buckets"] // 2, f["max_distance"]
        lines += [
            "        d = apart.clamp(min=0)",
            f"        far = {half} + (torch.log(d.clamp(min=1).float() / {half})",
            f"                        / math.log({most} / {half}) * {count - half}).long()",
            f"        where_to = torch.where(d < {half}, d, far.clamp(max={count - 1}))",
            "        scores = scores + self.rel(where_to).permute(2, 0, 1)",
        ]
    return lines


def _where(f: Features) -> list[str]:
    start = "0" if f.get("restarts") else "(past_key.shape[2] if past_key is not None else 0)"
    lines = [f"        where = torch.arange(t)[None] + {start}"]
    if "positions" in f.get("arguments", ()) and not f.get("ignores_positions"):
        lines += ["        if positions is not None:", "            where = positions"]
    if f.get("counts_mask"):
        lines += [
            "        if mask is not None:",
            "            where = torch.cumsum(mask, dim=1) - 1\n            where = where.masked_fill(where < 0, 0)"
            if f.get("spelling") == "added"
            else "            where = ((mask != 0).long().cumsum(-1) - 1).clamp(min=0)",
        ]
    if f.get("wrap"):
        lines.append(f"        where = where % {f['wrap']}")
    if f.get("limit"):
        lines.append(f"        where = where.clamp(max={f['limit'] - 1})")
    return lines


def port_weights(weights: Mapping[str, Any], features: Features) -> dict[str, Any]:
    """Return an original's weights under a port's names."""
    import torch

    names = {"embed_tokens": "wte", "embed_positions": "wpe", "norm": "f", "lm_head": "head"}
    inner = {"input_layernorm": "n1", "post_attention_layernorm": "n2", "o_proj": "out", "gate_proj": "w1"}
    inner |= {"down_proj": "w2", "up_proj": "w3", "relative_attention_bias": "rel"}
    made = {}
    for name, value in weights.items():
        parts = name.removesuffix(".weight").split(".")
        if parts[0] != "layers":
            own = names[parts[0]]
            end = "g" if own == "f" else "weight"
            made[f"{own}.{end}"] = value
        elif parts[-1] in inner:
            own = inner[parts[-1]]
            made[f"h.{parts[1]}.{own}.{'g' if own in {'n1', 'n2'} else 'weight'}"] = value
    for layer in range(2):
        joined = [weights[f"layers.{layer}.self_attn.{c}_proj.weight"] for c in "qkv"]
        made[f"h.{layer}.qkv.weight"] = torch.cat(joined)
    if "wpe.weight" in made:
        made["wpe.weight"] = made["wpe.weight"][: features.get("rows")].clone()
        if features.get("has_other_rows"):
            made["wpe.weight"][features["has_other_rows"] :] = 0.0
    return made
