"""Source text of ports of decoders, in several spellings, with a planted mistake where one is named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from benchmarks.decoders.originals import FAMILIES, INNER, LAYERS, LENGTH, VOCABULARY, WIDTH

if TYPE_CHECKING:
    from benchmarks.decoders.originals import Decoder, Weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """A way of writing a decoder.

    Attributes:
        names: Names of the modules, by ours.
        is_fused: Whether one dense layer computes queries, keys and values, and one the gate and its factor.
        rotary: ``rotate_half``, ``cat``, ``complex``, ``stack`` (neighbours, by a stack) or ``unflatten``.
        is_stored: Whether the tables of the rotary embedding are buffers.
        repeat: ``interleave``, ``expand``, ``enable_gqa``, ``index`` or ``stack``.
        attention: ``eager``, ``sdpa`` or ``einsum``.
        mask: ``fill``, ``add``, ``is_causal``, ``bool`` or ``where``.
    """

    names: dict[str, str]
    is_fused: bool
    rotary: str
    is_stored: bool
    repeat: str
    attention: str
    mask: str

    @property
    def has_neighbours(self) -> bool:
        """True if neighbouring features are pairs, and the weights stored in that order."""
        return self.rotary in {"complex", "stack"}


def _names(text: str) -> dict[str, str]:
    ours = "embed layers norm head norm1 norm2 after1 after2 attention q k v qkv o q_norm k_norm mlp gate up"
    return dict(zip(f"{ours} gate_up down router".split(), text.split(), strict=True))


SPELLINGS = {
    "eager": Spelling(
        names=_names(
            "tok_embeddings layers norm output attention_norm ffn_norm attention_post_norm ffn_post_norm"
            " attention wq wk wv wqkv wo q_norm k_norm feed_forward w1 w3 w13 w2 router"
        ),
        is_fused=False,
        rotary="rotate_half",
        is_stored=False,
        repeat="interleave",
        attention="eager",
        mask="fill",
    ),
    "fused": Spelling(
        names=_names(
            "wte h ln_f lm_head ln_1 ln_2 ln_1_post ln_2_post attn c_q c_k c_v c_attn c_proj ln_q ln_k mlp"
            " c_gate c_up c_fc c_out gate"
        ),
        is_fused=True,
        rotary="cat",
        is_stored=True,
        repeat="enable_gqa",
        attention="sdpa",
        mask="is_causal",
    ),
    "complex": Spelling(
        names=_names(
            "embedding blocks final_norm unembed pre_attn pre_mlp post_attn post_mlp mixer query key value"
            " in_proj out_proj query_norm key_norm ffn gate_proj up_proj gate_up_proj down_proj switch"
        ),
        is_fused=False,
        rotary="complex",
        is_stored=False,
        repeat="expand",
        attention="eager",
        mask="add",
    ),
    "einsum": Spelling(
        names=_names("vocab stages last logits n1 n2 n3 n4 att a b c abc d na nb ff g u gu dn choose"),
        is_fused=False,
        rotary="stack",
        is_stored=True,
        repeat="index",
        attention="einsum",
        mask="where",
    ),
    "bool": Spelling(
        names=_names(
            "emb trunk norm_out to_logits norm_in norm_mid norm_a norm_b sa to_q to_k to_v to_qkv to_out"
            " qn kn fc fc_gate fc_up fc_in fc_down gating"
        ),
        is_fused=True,
        rotary="unflatten",
        is_stored=False,
        repeat="stack",
        attention="sdpa",
        mask="bool",
    ),
}

HELD_OUT_SPELLINGS = ("einsum", "bool")
"""Not looked at before the mends were made."""


def weights_of(family: str, spelling: Spelling, weights: Weights, mistake: str = "") -> Weights:
    """Return our weights under a port's names, fused and in its order of features."""
    decoder = FAMILIES[family]
    weights = dict(weights)
    if mistake == "reversed-layers":
        weights = {_with_layer(name): value for name, value in weights.items()}
    if mistake == "swapped-norms":
        weights = {_with_other_norm(name): value for name, value in weights.items()}
    if spelling.has_neighbours and mistake != "pairing":
        _pair_neighbours(decoder, weights)
    if mistake == "untied":
        noise = torch.randn(weights["head"].shape, generator=torch.Generator().manual_seed(0))
        weights["head"] = 0.05 * noise
    if mistake == "qkv-order":
        _swap_queries_and_keys(weights)
    weights = {name: value for name, value in weights.items() if not _is_left_out(decoder, name, mistake)}
    if spelling.is_fused:
        _fuse(decoder, weights)
    return {_path(decoder, spelling, name): value.contiguous() for name, value in weights.items()}


def _is_left_out(decoder: Decoder, name: str, mistake: str) -> bool:
    """Return whether a port does not have a weight."""
    is_rest = mistake == "dropped-layer" and name.startswith(f"{LAYERS - 1}.")
    is_tied = name == "head" and decoder.is_tied and mistake != "untied"
    is_bias = mistake == "no-bias" and name.endswith((".q.bias", ".k.bias", ".v.bias"))
    is_norm = mistake == "no-qk-norm" and name.endswith(("q_norm", "k_norm"))
    return is_rest or is_tied or is_bias or is_norm


def _swap_queries_and_keys(weights: Weights) -> None:
    for name in [name for name in weights if ".q" in name and "norm" not in name]:
        other = name.replace(".q", ".k")
        weights[name], weights[other] = weights[other], weights[name]


def _fuse(decoder: Decoder, weights: Weights) -> None:
    """Join what one dense layer computes: queries, keys and values, and the gate and its factor."""
    joins = [] if decoder.has_qk_norm else [("qkv", "qkv")]
    joins += [("gate_up", ("gate", "up"))] if decoder.is_gated and not decoder.experts else []
    for layer in range(LAYERS):
        for joined, parts in joins:
            for bias in ("", ".bias"):
                names = [f"{layer}.{part}{bias}" for part in parts]
                if all(name in weights for name in names):
                    weights[f"{layer}.{joined}{bias}"] = torch.cat([weights.pop(name) for name in names])


INNER_NAMES = {"q", "k", "v", "qkv", "o", "q_norm", "k_norm", "gate", "up", "gate_up", "down", "router"}


def _path(decoder: Decoder, spelling: Spelling, name: str) -> str:
    """Return a port's name of a weight."""
    names, parts = spelling.names, name.split(".")
    layer = parts.pop(0) if parts[0].isdigit() else ""
    own, end = parts[0], "bias" if len(parts) > 1 else "weight"
    path = [names["layers"], layer] if layer else []
    if own in INNER_NAMES:
        is_of_attention = own in {"q", "k", "v", "qkv", "o", "q_norm", "k_norm"}
        path.append(names["attention" if is_of_attention else "mlp"])
    is_array = decoder.experts and own in {"gate_up", "down"}
    return ".".join([*path, names[own], *([] if is_array else [end])])


def _with_layer(name: str) -> str:
    layer, dot, rest = name.partition(".")
    return f"{LAYERS - 1 - int(layer)}{dot}{rest}" if layer.isdigit() else name


OTHER_NORM = {"norm1": "norm2", "norm2": "norm1"}


def _with_other_norm(name: str) -> str:
    layer, _, own = name.partition(".")
    return f"{layer}.{OTHER_NORM[own]}" if own in OTHER_NORM else name


def _pair_neighbours(decoder: Decoder, weights: Weights) -> None:
    """Put the rotated features of each head in the order in which neighbours are pairs."""
    half = decoder.rotary_dim // 2
    order = torch.arange(decoder.head_dim)
    order[: decoder.rotary_dim] = torch.arange(decoder.rotary_dim).view(2, half).T.flatten()
    for name, value in weights.items():
        own = name.split(".", 1)[-1].partition(".")[0]
        if own in {"q", "k"}:
            weights[name] = value.unflatten(0, (-1, decoder.head_dim))[:, order].flatten(0, 1)
        elif own in {"q_norm", "k_norm"}:
            weights[name] = value[order]


class Writer:
    """Writes the source of a port.

    Args:
        family: Name of the decoder.
        spelling: How it is written.
        mistake: Name of the planted mistake; empty for a right port.
    """

    def __init__(self, family: str, spelling: Spelling, mistake: str = "") -> None:
        self._decoder, self._spelling, self._mistake = FAMILIES[family], spelling, mistake
        self._lines: list[str] = []

    def _has(self, *mistakes: str) -> bool:
        return self._mistake in mistakes

    def _write(self, text: str) -> None:
        self._lines += text.strip("\n").split("\n")

    def text(self) -> str:
        """Return the source."""
        self._write("import math\n\nimport torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n")
        self._write(self._norm() + "\n\n")
        self._write(self._rotary() + "\n\n")
        self._write(self._attention_class() + "\n\n")
        self._write(self._mlp_class() + "\n\n")
        self._write(self._block() + "\n\n")
        self._write(self._model())
        return "\n".join(self._lines) + "\n"

    def _norm(self) -> str:
        decoder = self._decoder
        eps = {1e-6: 1e-5, 1e-5: 1e-6}[decoder.eps] if self._has("eps") else decoder.eps
        if decoder.norm == "layer":
            return f"class Norm(nn.LayerNorm):\n    def __init__(self, width):\n        super().__init__(width, eps={eps})\n"
        is_plus = (decoder.norm == "rms1") != self._has("weight-plus-one")
        factor = "(1 + self.weight)" if is_plus else "self.weight"
        centred = "        x = x - x.mean(-1, keepdim=True)\n" if self._has("layer-norm") else ""
        if self._spelling.is_fused:
            body = f"{centred}        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps) * {factor}"
        else:
            body = f"{centred}        return {factor} * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))"
        return (
            f"class Norm(nn.Module):\n    def __init__(self, width, eps={eps}):\n        super().__init__()\n"
            f"        self.weight = nn.Parameter(torch.ones(width))\n        self.eps = eps\n\n"
            f"    def forward(self, x):\n{body}\n"
        )

    def _rotary(self) -> str:
        decoder, kind = self._decoder, self._spelling.rotary
        text = "def frequencies(width, theta):\n"
        text += "    freqs = 1.0 / theta ** (torch.arange(0, width, 2).float() / width)\n"
        if decoder.scaling is not None and not self._has("scaling"):
            factor, low, high, length = decoder.scaling
            text += (
                f"    turns = freqs * {length} / (2 * math.pi)\n"
                f"    smooth = ((turns - {low}) / ({high} - {low})).clamp(0, 1)\n"
                f"    freqs = (1 - smooth) * freqs / {factor} + smooth * freqs\n"
            )
        text += "    return freqs\n\n\n"
        text += "def angles(length, width, theta, start=0):\n"
        text += "    return torch.outer(torch.arange(start, start + length).float(), frequencies(width, theta))\n\n\n"
        sign = "-" if self._has("sign") else ""
        if self._has("pairing"):  # the others' pairs: weights are in the order that the spelling has
            kind = "cat" if self._spelling.rotary == "unflatten" else kind
            kind = "stack" if kind in {"rotate_half", "cat"} else kind
        if kind == "rotate_half":
            return text + (
                "def rotate_half(x):\n    x1, x2 = x.chunk(2, dim=-1)\n    return torch.cat((-x2, x1), dim=-1)\n\n\n"
                "def rotate(x, angle):\n    angle = torch.cat((angle, angle), dim=-1)\n"
                f"    return x * angle.cos() + rotate_half(x) * {sign}angle.sin()\n"
            )
        if kind == "complex":
            return text + (
                "def rotate(x, angle):\n"
                f"    turns = torch.polar(torch.ones_like(angle), {sign}angle)\n"
                "    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))\n"
                "    return torch.view_as_real(pairs * turns).flatten(-2)\n"
            )
        halves = {
            "cat": "x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]",
            "stack": "x1, x2 = x[..., ::2], x[..., 1::2]",
            "unflatten": "x1, x2 = x.unflatten(-1, (2, -1)).unbind(-2)",
        }[kind]
        joined = {
            "cat": "torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)",
            "stack": "torch.stack((x1 * cos - x2 * sin, x1 * sin + x2 * cos), dim=-1).flatten(-2)",
            "unflatten": "torch.stack((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-2).flatten(-2)",
        }[kind]
        return (
            text
            + f"def rotate(x, angle):\n    cos, sin = angle.cos(), {sign}angle.sin()\n    {halves}\n    return {joined}\n"
        )

    def _turned(self, name: str) -> str:
        """Return the line that rotates queries or keys."""
        decoder = self._decoder
        if name == "k" and self._has("no-rotary-k"):
            return ""
        dim = decoder.rotary_dim
        if self._has("partial"):
            dim = decoder.head_dim if dim < decoder.head_dim else dim // 2
        angle = f"angle_{name}"
        if dim == decoder.head_dim:
            return f"        {name} = rotate({name}, {angle})\n"
        return f"        {name} = torch.cat((rotate({name}[..., :{dim}], {angle}), {name}[..., {dim}:]), dim=-1)\n"

    def _attention_class(self) -> str:
        d, s, n = self._decoder, self._spelling, self._spelling.names
        width, kv = d.heads * d.head_dim, d.kv_heads * d.head_dim
        bias = f", bias={d.has_bias and not self._has('no-bias')}"
        is_fused = s.is_fused and not d.has_qk_norm
        text = "class Attention(nn.Module):\n    def __init__(self, index):\n        super().__init__()\n"
        if is_fused:
            text += f"        self.{n['qkv']} = nn.Linear({WIDTH}, {width + 2 * kv}{bias})\n"
        else:
            for name, rows in (("q", width), ("k", kv), ("v", kv)):
                text += f"        self.{n[name]} = nn.Linear({WIDTH}, {rows}{bias})\n"
        text += f"        self.{n['o']} = nn.Linear({width}, {WIDTH}, bias={d.has_bias})\n"
        has_norm = d.has_qk_norm and not self._has("no-qk-norm")
        if has_norm:
            for name in ("q_norm", "k_norm"):
                text += f"        self.{n[name]} = Norm({d.head_dim})\n"
        text += (
            f"        self.window = {self._windows()}[index]\n        self.theta = {self._thetas()}[index]\n"
        )
        dim = self._angle_width()
        if s.is_stored:
            text += (
                f"        self.register_buffer('angles', angles(256, {dim}, self.theta), persistent=False)\n"
            )
        text += "\n    def forward(self, x):\n        b, t, _ = x.shape\n"
        if is_fused:
            text += f"        q, k, v = self.{n['qkv']}(x).split(({width}, {kv}, {kv}), dim=-1)\n"
        else:
            text += "".join(f"        {name} = self.{n[name]}(x)\n" for name in "qkv")
        for name, heads in (("q", d.heads), ("k", d.kv_heads), ("v", d.kv_heads)):
            text += f"        {name} = {name}.view(b, t, {heads}, {d.head_dim}).transpose(1, 2)\n"
        norms = "".join(f"        {c} = self.{n[f'{c}_norm']}({c})\n" for c in "qk") if has_norm else ""
        source = "self.angles[{}t{}]" if s.is_stored else f"angles(t, {dim}, self.theta{{}}{{}})"
        plain = source.format(":", "") if s.is_stored else source.format("", "")
        moved = source.format("1:1 + ", "") if s.is_stored else source.format(", start=1", "")
        text += (
            f"        angle_k = {plain}\n        angle_q = {moved if self._has('offset') else 'angle_k'}\n"
        )
        turns = self._turned("q") + self._turned("k")
        text += turns + norms if self._has("norm-behind-rotary") else norms + turns
        text += self._repeated() + self._attended()
        join = (
            "y.reshape"
            if self._has("merged-heads") or s.attention == "einsum"
            else "y.transpose(1, 2).reshape"
        )
        if self._has("merged-heads") and s.attention == "einsum":
            join = "y.transpose(1, 2).reshape"
        return text + f"        return self.{n['o']}({join}(b, t, {width}))\n"

    def _angle_width(self) -> int:
        d = self._decoder
        if self._has("partial"):
            return d.head_dim if d.rotary_dim < d.head_dim else d.rotary_dim // 2
        return d.rotary_dim

    def _windows(self) -> tuple[int, ...]:
        windows = self._decoder.windows
        if self._has("window"):
            return (0,) * len(windows)
        return tuple(window + 1 if window and self._has("window-off") else window for window in windows)

    def _thetas(self) -> tuple[float, ...]:
        thetas = self._decoder.thetas
        if self._has("theta"):
            return (10000.0,) * 2 if thetas[0] != 10000.0 else (500000.0,) * 2
        return thetas

    def _repeated(self) -> str:
        d, kind = self._decoder, self._spelling.repeat
        groups = d.heads // d.kv_heads
        if groups == 1:
            return ""
        if self._has("tile"):
            return "".join(f"        {c} = {c}.repeat(1, {groups}, 1, 1)\n" for c in "kv")
        if kind == "enable_gqa" and self._is_sdpa:
            return ""
        line = {
            "interleave": f"{{c}}.repeat_interleave({groups}, dim=1)",
            "enable_gqa": f"{{c}}.repeat_interleave({groups}, dim=1)",
            "expand": f"{{c}}[:, :, None].expand(b, {d.kv_heads}, {groups}, t, {d.head_dim})"
            f".reshape(b, {d.heads}, t, {d.head_dim})",
            "index": f"{{c}}[:, torch.arange({d.heads}) // {groups}]",
            "stack": f"torch.stack([{{c}}] * {groups}, dim=2).flatten(1, 2)",
        }[kind]
        return "".join(f"        {c} = {line.format(c=c)}\n" for c in "kv")

    @property
    def _is_sdpa(self) -> bool:
        return self._spelling.attention == "sdpa" and not self._decoder.attention_cap

    @property
    def _scale(self) -> str:
        d = self._decoder
        if self._has("scale"):
            return "1.0" if d.scale == 0.25 and not d.has_bias else "0.25" if d.scale != 0.25 else "0.125"
        return f"{d.head_dim} ** -0.5" if d.scale == 0.25 else "24 ** -0.5"

    def _attended(self) -> str:
        d, s = self._decoder, self._spelling
        allowed = "        allowed = torch.ones(t, t, dtype=torch.bool).tril()\n"
        if self._has("mask"):
            allowed = "        allowed = torch.ones(t, t, dtype=torch.bool)\n"
        has_window = any(self._windows())
        if has_window:
            allowed += "        if self.window:\n            allowed = allowed.triu(1 - self.window)\n"
        if self._is_sdpa:
            gqa = s.repeat == "enable_gqa" and d.heads != d.kv_heads and not self._has("tile")
            more = f", scale={self._scale}{', enable_gqa=True' * gqa}"
            if s.mask == "is_causal" and not has_window:
                causal = not self._has("mask")
                return f"        y = F.scaled_dot_product_attention(q, k, v, is_causal={causal}{more})\n"
            if self._has("mask"):
                return f"        y = F.scaled_dot_product_attention(q, k, v{more})\n"
            return f"{allowed}        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed{more})\n"
        product = (
            "torch.einsum('bhqd,bhkd->bhqk', q, k)" if s.attention == "einsum" else "q @ k.transpose(-2, -1)"
        )
        text = f"        scores = {product} * {self._scale}\n"
        if s.attention == "eager" and self._scale.endswith("-0.5"):
            text = f"        scores = {product} / math.sqrt({self._scale.split()[0]})\n"
        if d.attention_cap and not self._has("attention-cap"):
            text += f"        scores = {d.attention_cap} * torch.tanh(scores / {d.attention_cap})\n"
        if not (self._has("mask") and not has_window):
            text += allowed
            text += {
                "add": "        mask = torch.zeros(t, t).masked_fill(~allowed, float('-inf'))\n"
                "        scores = scores + mask\n",
                "where": "        scores = torch.where(allowed, scores, -1e9)\n",
            }.get(s.mask, "        scores = scores.masked_fill(~allowed, float('-inf'))\n")
        text += "        weights = F.softmax(scores, dim=-1)\n"
        if s.attention == "einsum":
            return text + "        y = torch.einsum('bhqk,bhkd->bqhd', weights, v)\n"
        return text + "        y = weights @ v\n"

    @property
    def _activation(self) -> str:
        kind = self._decoder.activation
        if self._has("activation"):
            kind = {"silu": "gelu", "gelu": "gelu_tanh", "gelu_tanh": "gelu"}[kind]
        return {"silu": "F.silu({})", "gelu": "F.gelu({})", "gelu_tanh": "F.gelu({}, approximate='tanh')"}[
            kind
        ]

    def _mlp_class(self) -> str:
        d, s, n = self._decoder, self._spelling, self._spelling.names
        text = "class FeedForward(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        if d.experts:
            return text + self._experts()
        bias = f", bias={d.has_bias}"
        if not d.is_gated:
            text += f"        self.{n['up']} = nn.Linear({WIDTH}, {INNER}{bias})\n"
            inner = f"self.{n['up']}(x)"
            lines = f"        return self.{n['down']}({self._activation.format(inner)})\n"
        else:
            first, second = ("up", "gate") if self._has("gate-up") else ("gate", "up")
            if s.is_fused:
                text += f"        self.{n['gate_up']} = nn.Linear({WIDTH}, {2 * INNER}{bias})\n"
                lines = f"        {first}, {second} = self.{n['gate_up']}(x).chunk(2, dim=-1)\n"
                lines += f"        return self.{n['down']}({self._activation.format('gate')} * up)\n"
            else:
                text += "".join(
                    f"        self.{n[c]} = nn.Linear({WIDTH}, {INNER}{bias})\n" for c in ("gate", "up")
                )
                active = self._activation.format(f"self.{n[first]}(x)")
                lines = f"        return self.{n['down']}({active} * self.{n[second]}(x))\n"
        text += f"        self.{n['down']} = nn.Linear({INNER}, {WIDTH}{bias})\n"
        return text + f"\n    def forward(self, x):\n{lines}"

    def _experts(self) -> str:
        """Return a mixture that computes all experts, and multiplies those that are not chosen by 0."""
        d, n = self._decoder, self._spelling.names
        k = 1 if self._has("router-one") else 2
        text = f"        self.{n['router']} = nn.Linear({WIDTH}, {d.experts}, bias=False)\n"
        text += (
            f"        self.{n['gate_up']} = nn.Parameter(torch.zeros({d.experts}, {2 * INNER}, {WIDTH}))\n"
        )
        text += f"        self.{n['down']} = nn.Parameter(torch.zeros({d.experts}, {WIDTH}, {INNER}))\n"
        text += "\n    def forward(self, x):\n"
        text += f"        probs = F.softmax(self.{n['router']}(x), dim=-1)\n"
        text += f"        top, index = torch.topk(probs, {k}, dim=-1)\n"
        if not self._has("router-norm"):
            text += "        top = top / top.sum(-1, keepdim=True)\n"
        text += "        shares = torch.zeros_like(probs).scatter(-1, index, top)\n        y = 0\n"
        text += f"        for expert in range({d.experts}):\n"
        text += f"            gate, up = F.linear(x, self.{n['gate_up']}[expert]).chunk(2, dim=-1)\n"
        text += (
            f"            made = F.linear({self._activation.format('gate')} * up, self.{n['down']}[expert])\n"
        )
        return text + "            y = y + shares[..., expert, None] * made\n        return y\n"

    def _block(self) -> str:
        d, n = self._decoder, self._spelling.names
        text = "class Block(nn.Module):\n    def __init__(self, index):\n        super().__init__()\n"
        names = ["norm1", "norm2"] + ["after1", "after2"] * d.has_sandwich
        text += "".join(f"        self.{n[name]} = Norm({WIDTH})\n" for name in names)
        text += f"        self.{n['attention']} = Attention(index)\n        self.{n['mlp']} = FeedForward()\n"
        text += "\n    def forward(self, x):\n"
        norm1, norm2 = f"self.{n['norm1']}", f"self.{n['norm2']}"
        attention, mlp = f"self.{n['attention']}", f"self.{n['mlp']}"
        if d.has_sandwich:
            after1, after2 = f"self.{n['after1']}", f"self.{n['after2']}"
            text += f"        x = x + {after1}({attention}({norm1}(x)))\n"
            return text + f"        return x + {after2}({mlp}({norm2}(x)))\n"
        if d.is_parallel and not self._has("sequential"):
            return text + f"        return x + {attention}({norm1}(x)) + {mlp}({norm2}(x))\n"
        if self._has("post-norm"):
            return text + f"        x = {norm1}(x + {attention}(x))\n        return {norm2}(x + {mlp}(x))\n"
        return text + f"        x = x + {attention}({norm1}(x))\n        return x + {mlp}({norm2}(x))\n"

    def _model(self) -> str:
        d, n = self._decoder, self._spelling.names
        layers = LAYERS - self._has("dropped-layer")
        is_tied = d.is_tied and not self._has("untied")
        text = "class Port(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        text += f"        self.{n['embed']} = nn.Embedding({VOCABULARY}, {WIDTH})\n"
        text += f"        self.{n['layers']} = nn.ModuleList(Block(index) for index in range({layers}))\n"
        text += f"        self.{n['norm']} = Norm({WIDTH})\n"
        if not is_tied:
            text += f"        self.{n['head']} = nn.Linear({WIDTH}, {VOCABULARY}, bias=False)\n"
        text += f"\n    def forward(self, tokens):\n        x = self.{n['embed']}(tokens)\n"
        if d.embedding_scale != 1 and not self._has("embedding-scale"):
            text += f"        x = x * math.sqrt({WIDTH})\n"
        text += f"        for layer in self.{n['layers']}:\n            x = layer(x)\n"
        text += f"        x = self.{n['norm']}(x)\n"
        logits = f"F.linear(x, self.{n['embed']}.weight)" if is_tied else f"self.{n['head']}(x)"
        if d.final_cap and not self._has("final-cap"):
            return (
                text
                + f"        logits = {logits}\n"
                + f"        return {d.final_cap} * torch.tanh(logits / {d.final_cap})\n"
            )
        return text + f"        return {logits}\n"


TOKENS = (1, LENGTH)
