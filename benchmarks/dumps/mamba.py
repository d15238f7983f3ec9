"""A tiny Mamba of Transformers, and ports of it in two spellings with mistakes that are planted."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from benchmarks.decoders.encoders import Mistake
from benchmarks.decoders.originals import LAYERS, VOCABULARY
from benchmarks.dumps.resnet import Logits

WIDTH, INNER, STATES, RANK, KERNEL, EPS = 32, 64, 8, 4, 4, 1e-5

SPELLINGS = ("scan", "matrix")
"""A loop over steps with fused projections, as in Mamba's own code; or a matrix of decays."""

MISTAKES = {
    "eps": Mistake("", "", "", r"\beps\b|epsilon"),
    "weight-plus-one": Mistake("", "", "", r"1 \+ w"),
    "layer-norm": Mistake("", "", "", r"mean"),
    "conv-later": Mistake("", "", "", r"pad|causal|shift|later"),
    "conv-flipped": Mistake("", "", "", r"flip|revers"),
    "no-conv-bias": Mistake("", "", "", r"bias"),
    "no-conv-activation": Mistake("", "", "", r"no activation"),
    "gate-sigmoid": Mistake("", "", "", r"(?i)sigmoid"),
    "gate-order": Mistake("", "", "", r"exchang|order|swap"),
    "softplus-relu": Mistake("", "", "", r"(?i)softplus|relu"),
    "no-step-bias": Mistake("", "", "", r"bias"),
    "decay-sign": Mistake("", "", "", r"(?i)\bexp|decay|\bA\b|A_log|sign"),
    "no-skip": Mistake("", "", "", r"without|lacks|skip|no factor|\bD\b"),
    "b-c-order": Mistake("", "", "", r"exchang|order|swap"),
    "no-gate": Mistake("", "", "", r"gate|without|factor"),
    "dropped-layer": Mistake("", "", "", r"layer|lacks|missing"),
    "no-residual": Mistake("", "", "", r"without|lacks|residual"),
    "post-norm": Mistake("", "", "", r"norm|Norm|residual|order"),
}
"""Mistakes, and what must be said of them."""


def original() -> Logits:
    """Return the model of Transformers with drawn weights."""
    import transformers as hf

    sizes = {"hidden_size": WIDTH, "intermediate_size": INNER, "state_size": STATES, "time_step_rank": RANK}
    sizes |= {"conv_kernel": KERNEL, "num_hidden_layers": LAYERS, "vocab_size": VOCABULARY, "expand": 2}
    config = hf.MambaConfig(**sizes, layer_norm_epsilon=EPS, use_cache=False, tie_word_embeddings=False)
    net = Logits(hf.MambaForCausalLM(config)).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, x in net.state_dict().items():
            noise = torch.randn(x.shape, generator=generator)
            if name.endswith("A_log"):
                x.add_(0.3 * noise)
            elif name.endswith("conv1d.weight"):
                x.copy_(0.6 * noise)
            elif x.ndim == 1:
                x.copy_(0.3 * noise + float("norm" in name or name.endswith(".D")))
            else:
                x.copy_(0.02 * noise if "embeddings" in name else 1.3 * noise / math.sqrt(x.shape[-1]))
    return net


class Norm(nn.Module):
    """An RMS norm."""

    def __init__(self, mistake: str) -> None:
        super().__init__()
        self.weight, self.mistake = nn.Parameter(torch.ones(WIDTH)), mistake

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the normalised features."""
        x = x - x.mean(-1, keepdim=True) if self.mistake == "layer-norm" else x
        eps = 1e-3 if self.mistake == "eps" else EPS
        weight = self.weight + float(self.mistake == "weight-plus-one")
        return weight * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


class Mixer(nn.Module):
    """A selective state space between two projections."""

    def __init__(self, spelling: str, mistake: str) -> None:
        super().__init__()
        self.is_fused, self.mistake = spelling == "scan", mistake
        if self.is_fused:
            self.in_proj = nn.Linear(WIDTH, 2 * INNER, bias=False)
            self.x_proj = nn.Linear(INNER, RANK + 2 * STATES, bias=False)
        else:
            self.to_x, self.to_gate = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
            self.to_step = nn.Linear(INNER, RANK, bias=False)
            self.to_b, self.to_c = (nn.Linear(INNER, STATES, bias=False) for _ in range(2))
        self.conv = nn.Conv1d(INNER, INNER, KERNEL, groups=INNER)
        self.step = nn.Linear(RANK, INNER)
        self.out = nn.Linear(INNER, WIDTH, bias=False)
        self.a_log, self.skip = nn.Parameter(torch.zeros(INNER, STATES)), nn.Parameter(torch.ones(INNER))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the output for normalised features (batch, steps, features)."""
        mistake = self.mistake
        x, gate = (
            self.in_proj(hidden).chunk(2, -1) if self.is_fused else (self.to_x(hidden), self.to_gate(hidden))
        )
        x, gate = (gate, x) if mistake == "gate-order" else (x, gate)
        pads = (KERNEL - 2, 1) if mistake == "conv-later" else (KERNEL - 1, 0)
        weight = self.conv.weight.flip(-1) if mistake == "conv-flipped" else self.conv.weight
        bias = None if mistake == "no-conv-bias" else self.conv.bias
        padded = functional.pad(x.mT, pads)
        wrong = weight is not self.conv.weight or bias is None
        x = (functional.conv1d(padded, weight, bias, groups=INNER) if wrong else self.conv(padded)).mT
        x = x if mistake == "no-conv-activation" else functional.silu(x)
        y = self._states(x) + (0 if mistake == "no-skip" else x * self.skip)
        if mistake == "gate-sigmoid":
            y = y * gate.sigmoid()
        elif mistake != "no-gate":
            y = y * functional.silu(gate)
        return self.out(y)

    def _states(self, x: torch.Tensor) -> torch.Tensor:
        sizes = (RANK, STATES, STATES)
        step, b, c = (
            self.x_proj(x).split(sizes, -1)
            if self.is_fused
            else (self.to_step(x), self.to_b(x), self.to_c(x))
        )
        b, c = (c, b) if self.mistake == "b-c-order" else (b, c)
        bias = None if self.mistake == "no-step-bias" else self.step.bias
        step = functional.linear(step, self.step.weight) if bias is None else self.step(step)
        step = step.relu() if self.mistake == "softplus-relu" else functional.softplus(step)
        decay = -self.a_log if self.mistake == "decay-sign" else -self.a_log.exp()
        given = (step * x)[..., None] * b[..., None, :]
        if self.is_fused:
            state, rows = torch.zeros_like(given[:, 0]), []
            for i in range(x.shape[1]):
                state = (step[:, i, :, None] * decay).exp() * state + given[:, i]
                rows.append((state @ c[:, i, :, None])[..., 0])
            return torch.stack(rows, 1)
        total = step.cumsum(1)[..., None] * decay
        apart = total[:, :, None] - total[:, None]
        seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()[None, :, :, None, None]
        apart = apart.masked_fill(~seen, -torch.inf).exp()
        return torch.einsum("btsin,bsin,btn->bti", apart, given, c)


class Layer(nn.Module):
    """A norm, a mixer and the residual."""

    def __init__(self, spelling: str, mistake: str) -> None:
        super().__init__()
        self.norm, self.mixer, self.mistake = Norm(mistake), Mixer(spelling, mistake), mistake

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the new residual."""
        if self.mistake == "post-norm":
            return self.norm(x + self.mixer(x))
        y = self.mixer(self.norm(x))
        return y if self.mistake == "no-residual" else x + y


class Port(nn.Module):
    """A port of the model."""

    def __init__(self, spelling: str, mistake: str) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(VOCABULARY, WIDTH), Norm("")
        num_layers = LAYERS - (mistake == "dropped-layer")
        self.blocks = nn.ModuleList(Layer(spelling, mistake) for _ in range(num_layers))
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


NAMES = (
    ("model.backbone.", ""), ("model.lm_head", "head"), ("embeddings", "words"), ("layers", "blocks"),
    ("norm_f", "norm"), ("conv1d", "conv"), ("dt_proj", "step"), ("out_proj", "out"), ("A_log", "a_log"),
    (".D", ".skip"),
)  # fmt: skip
"""Parts of a port's names by those of Transformers, applied in this order."""

APART = {
    "in_proj": (("to_x", "to_gate"), (INNER, INNER)),
    "x_proj": (("to_step", "to_b", "to_c"), (RANK, STATES, STATES)),
}


def port(spelling: str, mistake: str, net: Any) -> Port:
    """Return a port with the weights of a model."""
    weights: dict[str, torch.Tensor] = {}
    for name, x in net.state_dict().items():
        for old, new in NAMES:
            name = name.replace(old, new)
        key = name.split(".")[-2] if name.count(".") else ""
        if spelling == "matrix" and key in APART:
            parts, sizes = APART[key]
            weights |= {name.replace(key, part): w for part, w in zip(parts, x.split(sizes), strict=True)}
        elif not (mistake == "dropped-layer" and name.startswith(f"blocks.{LAYERS - 1}.")):
            weights[name] = x
    if mistake == "dropped-layer":
        weights = {name: x for name, x in weights.items() if not name.startswith(f"blocks.{LAYERS - 1}.")}
    made = Port(spelling, mistake)
    made.load_state_dict(weights)
    return made.eval()
