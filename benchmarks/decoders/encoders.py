"""BERT, ViT, T5 and Whisper of Transformers against somebody's own code, in two spellings.

::

    python -m benchmarks decoders.encoders --folder build/encoders [--held-out] [--only FAMILY:SPELLING:MISTAKE]
    python -m benchmarks decoders.encoders --folder build/encoders --drawn [--held-out]

Right ports must be equal without a finding. Of a planted mistake the first finding must stand at a layer and
have a word in its cause that were written down before. Each third case, in their order, is held out. The drawn
ones are 12 mistakes in the spelling that ``cases`` does not have.
"""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import netweave
from benchmarks.decoders.scoring import WRONG_CASE, Row, compared, counts, distance, judge, run_cases
from benchmarks.record import Namespace, Record, option
from benchmarks.source_module import source_module

HELD_OUT = 3
"""Each third case is held out."""

SPELLINGS = ("eager", "fused")

HEAD = """
import math
import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.LayerNorm):
    def __init__(self):
        super().__init__(32, eps=EPS)
"""

RMS = """

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS)
"""

EAGER = """

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v, self.o = (nn.Linear(32, 32, bias=BIAS) for _ in range(3))
        self.k = nn.Linear(32, 32, bias=BIAS)

    def forward(self, x, y=None, bias=None, causal=False):
        y = x if y is None else y
        q = self.q(x).view(x.shape[0], -1, 2, 16).transpose(1, 2)
        k = self.k(y).view(y.shape[0], -1, 2, 16).transpose(1, 2)
        v = self.v(y).view(y.shape[0], -1, 2, 16).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) * SCALE
        if bias is not None:
            scores = scores + bias
        if causal:
            ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, float("-inf"))
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""

FUSED = """

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96, bias=BIAS)
        self.o = nn.Linear(32, 32, bias=BIAS)

    def forward(self, x, y=None, bias=None, causal=False):
        if y is None:
            q, k, v = self.qkv(x).chunk(3, dim=-1)
        else:
            weight, shift = self.qkv.weight, self.qkv.bias
            q = F.linear(x, weight[:32], None if shift is None else shift[:32])
            k, v = F.linear(y, weight[32:], None if shift is None else shift[32:]).chunk(2, dim=-1)
        q, k, v = (z.unflatten(-1, (2, 16)).transpose(1, 2) for z in (q, k, v))
        if causal and bias is not None:
            steps = torch.arange(x.shape[1])
            bias = torch.where(steps[:, None] >= steps, bias, float("-inf"))
        z = F.scaled_dot_product_attention(q, k, v, bias, is_causal=causal and bias is None, scale=SCALE)
        return self.o(z.transpose(1, 2).reshape(x.shape))
"""

LAYER = """

class Layer(nn.Module):
    def __init__(self, crossed=False):
        super().__init__()
        self.attn, self.n1, self.n2 = Attention(), Norm(), Norm()
        self.up, self.down = nn.Linear(32, 48, bias=BIAS), nn.Linear(48, 32, bias=BIAS)
        if crossed:
            self.cross, self.n3 = Attention(), Norm()

    def forward(self, x, y=None, bias=None, causal=False):
        x = x + self.attn(self.n1(x), bias=bias, causal=causal)
        if y is not None:
            x = x + self.cross(self.n3(x), y)
        return x + self.down(ACT(self.up(self.n2(x))))
"""

BERT = """

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn, self.n1, self.n2 = Attention(), Norm(), Norm()
        self.up, self.down = nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x):
        x = self.n1(x + self.attn(x))
        return self.n2(x + self.down(ACT(self.up(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.place, self.kind = nn.Embedding(61, 32), nn.Embedding(40, 32), nn.Embedding(2, 32)
        self.norm = Norm()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, ids):
        x = self.word(ids) + self.place.weight[: ids.shape[1]] + self.kind.weight[0]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return x
"""

VIT = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 4, stride=4)
        self.cls, self.place = nn.Parameter(torch.zeros(1, 1, 32)), nn.Parameter(torch.zeros(1, 17, 32))
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = Norm()

    def forward(self, image):
        x = self.patch(image).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls.expand(x.shape[0], -1, -1), x), dim=1) + self.place
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)
"""

T5 = """

def bucket(far, both):
    count, made = 8, 0
    if both:
        count = 4
        made = (far > 0).long() * count
        far = far.abs()
    else:
        far = (-far).clamp(min=0)
    exact = count // 2
    more = exact + (torch.log(far.clamp(min=1).float() / exact) / math.log(FAR / exact) * (count - exact)).long()
    return made + torch.where(far < exact, far, more.clamp(max=count - 1))


class Stack(nn.Module):
    def __init__(self, decodes):
        super().__init__()
        self.decodes, self.rel, self.norm = decodes, nn.Embedding(8, 2), Norm()
        self.layers = nn.ModuleList(Layer(decodes) for _ in range(2))

    def forward(self, x, y=None):
        steps = torch.arange(x.shape[1])
        bias = self.rel(bucket(steps[None] - steps[:, None], not self.decodes)).permute(2, 0, 1)[None]
        for layer in self.layers:
            x = layer(x, y, bias, self.decodes)
        return self.norm(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.encode, self.decode = nn.Embedding(61, 32), Stack(False), Stack(True)

    def forward(self, ids, target):
        return self.decode(self.word(target), self.encode(self.word(ids)))
"""

WHISPER = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(8, 32, 3, padding=1), nn.Conv1d(32, 32, 3, stride=2, padding=1)
        self.heard, self.place = nn.Parameter(torch.zeros(12, 32)), nn.Embedding(16, 32)
        self.word, self.norm1, self.norm2 = nn.Embedding(61, 32), Norm(), Norm()
        self.encode = nn.ModuleList(Layer() for _ in range(2))
        self.decode = nn.ModuleList(Layer(True) for _ in range(2))

    def forward(self, sound, target):
        y = F.gelu(self.conv2(F.gelu(self.conv1(sound)))).transpose(1, 2) + self.heard
        for layer in self.encode:
            y = layer(y)
        y = self.norm1(y)
        x = self.word(target) + self.place.weight[: target.shape[1]]
        for layer in self.decode:
            x = layer(x, y, causal=True)
        return self.norm2(x)
"""

ORDER = "self.patch(image).flatten(2)", "self.patch(image).transpose(2, 3).flatten(2)"
CLASS_LAST = (
    "torch.cat((self.cls.expand(x.shape[0], -1, -1), x)",
    "torch.cat((x, self.cls.expand(x.shape[0], -1, -1))",
)
ATTENTION, MLP, NORM = r"att|Att", r"mlp|intermediate|output|fc|Dense|up|down", r"norm|Norm|n1|n2"


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake: what the port's source has otherwise, and what the first finding must say of it."""

    old: str
    new: str
    place: str
    words: str


def _scale(right: float, wrong: float) -> Mistake:
    return Mistake(f"SCALE = {right}", f"SCALE = {wrong}", ATTENTION, r"scor|scal|factor")


TANH = Mistake("ACT = F.gelu", "ACT = lambda x: F.gelu(x, approximate='tanh')", MLP, r"(?i)gelu|tanh|erf")

FAMILIES: dict[str, dict[str, Mistake]] = {
    "bert": {
        "scale": _scale(0.25, 0.125),
        "tanh": TANH,
        "eps": Mistake("EPS = 1e-12", "EPS = 1e-2", NORM, r"eps"),
        "pre-norm": Mistake("x = self.n1(x + self.attn(x))", "x = x + self.attn(self.n1(x))", r"att|norm|Norm|n1",
                            r"(?i)norm|residual|order"),
        "positions": Mistake("self.place.weight[: ids.shape[1]]", "self.place.weight[2 : ids.shape[1] + 2]",
                             r"embed|place|^$", r"position|row|values|offset"),
        "kind": Mistake("self.kind.weight[0]", "self.kind.weight[1]", r"embed|kind|^$", r"type|row|values"),
    },
    "vit": {
        "scale": _scale(0.25, 1.0),
        "tanh": TANH,
        "patch-order": Mistake(*ORDER, r"patch|embed", r"axes|transpos|order|permut|height"),
        "class-last": Mistake(*CLASS_LAST, r"embed|cat|^$", r"order|joins|Concat|concat"),
        "no-last-norm": Mistake("return self.norm(x)", "return x", r"norm|Norm", r"(?i)norm"),
        "swapped-norms": Mistake("self.attn(self.n1(x)", "self.attn(self.n2(x)", NORM, r"(?i)norm|weight"),
    },
    "t5": {
        "scale": _scale(1.0, 0.25),
        "relu": Mistake("ACT = F.relu", "ACT = F.gelu", MLP, r"(?i)relu"),
        "distance": Mistake("FAR = 16", "FAR = 32", r"bias|rel|^$|att|Att", r"bucket|distance|bias|relative"),
        "both": Mistake("not self.decodes)", "True)", r"bias|rel|^$|att|Att|decod", r"bucket|bias|relative|later"),
        "first-only": Mistake("x = layer(x, y, bias, self.decodes)",
                              "x = layer(x, y, bias, self.decodes)\n            bias = None",
                              r"\.1\.|att|Att", r"bias|relative|add|Add"),
        "layer-norm": Mistake("x.pow(2).mean(-1, keepdim=True)", "x.var(-1, keepdim=True, unbiased=False)", NORM,
                              r"mean|RMS|varianc|LayerNorm"),
    },
    "whisper": {
        "scale": _scale(0.25, 1.0),
        "tanh": Mistake(*("ACT = F.gelu", TANH.new), MLP, TANH.words),
        "stem": Mistake("F.gelu(self.conv2(F.gelu(self.conv1(sound))))", "F.gelu(self.conv2(self.conv1(sound)))",
                        r"conv|gelu|^$", r"(?i)gelu"),
        "not-causal": Mistake("causal=True", "causal=False", ATTENTION, r"causal|mask|later"),
        "no-encoder-norm": Mistake("y = self.norm1(y)", "y = y + 0 * self.norm1(y)", r"norm|Norm|cross|encoder_attn",
                                   r"(?i)norm|Mul|0"),
        "no-sound-places": Mistake(" + self.heard", " + 0 * self.heard", r"embed|heard|^$|add|conv",
                                   r"position|add|Add|values|zero|0"),
    },
}  # fmt: skip
"""Mistakes by family and name."""

BODIES = {"bert": BERT, "vit": LAYER + VIT, "t5": LAYER + T5, "whisper": LAYER + WHISPER}

SETTINGS = {
    "bert": "SCALE = 0.25\nEPS = 1e-12\nBIAS = True\nACT = F.gelu\n",
    "vit": "SCALE = 0.25\nEPS = 1e-12\nBIAS = True\nACT = F.gelu\n",
    "t5": "SCALE = 1.0\nEPS = 1e-6\nBIAS = False\nACT = F.relu\nFAR = 16\n",
    "whisper": "SCALE = 0.25\nEPS = 1e-5\nBIAS = True\nACT = F.gelu\n",
}

NAMES = {
    "bert": [
        ("embeddings.word_embeddings", "word"), ("embeddings.position_embeddings", "place"),
        ("embeddings.token_type_embeddings", "kind"), ("embeddings.LayerNorm", "norm"),
        ("encoder.layer", "layers"), ("attention.self.query", "attn.q"), ("attention.self.key", "attn.k"),
        ("attention.self.value", "attn.v"), ("attention.output.dense", "attn.o"),
        ("attention.output.LayerNorm", "n1"), ("intermediate.dense", "up"), ("output.dense", "down"),
        ("output.LayerNorm", "n2"),
    ],
    "vit": [
        ("embeddings.cls_token", "cls"), ("embeddings.position_embeddings", "place"),
        ("embeddings.patch_embeddings.projection", "patch"), ("attention.", "attn."), ("_proj", ""),
        ("layernorm_before", "n1"), ("layernorm_after", "n2"), ("mlp.fc1", "up"), ("mlp.fc2", "down"),
        ("layernorm", "norm"),
    ],
    "t5": [
        ("shared", "word"), ("relative_attention_bias", "rel"), ("encoder.block", "encode.layers"),
        ("decoder.block", "decode.layers"), ("encoder.final_layer_norm", "encode.norm"),
        ("decoder.final_layer_norm", "decode.norm"), ("layer.0.SelfAttention.rel", "rel"),
        ("layer.0.SelfAttention", "attn"), ("layer.1.EncDecAttention", "cross"), ("layer.0.layer_norm", "n1"),
    ],
    "whisper": [
        ("encoder.conv", "conv"), ("encoder.embed_positions.weight", "heard"),
        ("decoder.embed_positions", "place"), ("decoder.embed_tokens", "word"),
        ("encoder.layer_norm", "norm1"), ("decoder.layer_norm", "norm2"), ("encoder.layers", "encode"),
        ("decoder.layers", "decode"), ("self_attn_layer_norm", "n1"), ("encoder_attn_layer_norm", "n3"),
        ("self_attn.out_proj", "attn.o"), ("encoder_attn.out_proj", "cross.o"), ("self_attn", "attn"),
        ("encoder_attn", "cross"), ("_proj", ""), ("fc1", "up"), ("fc2", "down"), ("final_layer_norm", "n2"),
    ],
}  # fmt: skip
"""Parts of a port's names by those of Transformers, applied in this order."""


class Original(torch.nn.Module):
    """A model of Transformers that gives its last hidden state alone."""

    def __init__(self, model: torch.nn.Module, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(self, first: torch.Tensor, second: torch.Tensor | None = None) -> torch.Tensor:
        """Return the last hidden state."""
        given = {name: x for name, x in zip(self.inputs, (first, second), strict=False) if x is not None}
        hidden: torch.Tensor = self.model(**given).last_hidden_state
        return hidden


def original(family: str) -> Original:
    """Return a tiny model with drawn weights."""
    import transformers as hf

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    heard = {"num_mel_bins": 8, "max_source_positions": 12, "max_target_positions": 16, "d_model": 32}
    heard |= {f"{side}_{name}": n for side in ("encoder", "decoder")
              for name, n in (("layers", 2), ("attention_heads", 2), ("ffn_dim", 48))}  # fmt: skip
    heard |= {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3}
    related = {
        "d_model": 32,
        "d_kv": 16,
        "d_ff": 48,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 2,
    }
    related |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 16}
    made = {
        "bert": lambda: hf.BertModel(hf.BertConfig(vocab_size=61, max_position_embeddings=40, **sizes),
                                     add_pooling_layer=False),
        "vit": lambda: hf.ViTModel(hf.ViTConfig(image_size=16, patch_size=4, **sizes), add_pooling_layer=False),
        "t5": lambda: hf.T5Model(hf.T5Config(vocab_size=61, use_cache=False, **related)),
        "whisper": lambda: hf.WhisperModel(hf.WhisperConfig(vocab_size=61, use_cache=False, **heard)),
    }  # fmt: skip
    inputs = {"bert": ("input_ids",), "vit": ("pixel_values",), "t5": ("input_ids", "decoder_input_ids")}
    net = Original(made[family](), inputs.get(family, ("input_features", "decoder_input_ids"))).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in net.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                parameter.copy_(0.2 * noise + (0 if "bias" in name else 1))
            elif parameter.ndim == 2 and "embed" not in name and "shared" not in name:
                parameter.copy_(1.5 * noise / math.sqrt(parameter.shape[-1]))
            else:
                parameter.copy_(noise if parameter.ndim == 2 else noise / 4)
    return net


def weights_of(family: str, net: Original, *, is_fused: bool) -> dict[str, torch.Tensor]:
    """Return an original's weights under the names of a port."""
    made = {}
    for name, value in net.model.state_dict().items():
        new = name
        if family == "t5" and "embed_tokens" in name:
            continue
        for old, other in NAMES[family]:
            new = new.replace(old, other)
        if family == "t5":
            new = re.sub(r"layers\.0\.rel", "rel", new)
            at_end = "2" if new.startswith("decode") else "1"
            new = re.sub(rf"layer\.{at_end}\.DenseReluDense\.wi", "up", new)
            new = re.sub(rf"layer\.{at_end}\.DenseReluDense\.wo", "down", new)
            new = new.replace(f"layer.{at_end}.layer_norm", "n2").replace("layer.1.layer_norm", "n3")
        made[new] = value
    for name in [name for name in made if name.endswith(".k.weight")]:
        stem = name.removesuffix(".k.weight")
        if f"{stem}.v.bias" in made:
            made.setdefault(f"{stem}.k.bias", torch.zeros(32))
        if is_fused:
            for kind in ("weight", "bias"):
                if f"{stem}.k.{kind}" in made:
                    made[f"{stem}.qkv.{kind}"] = torch.cat([made.pop(f"{stem}.{x}.{kind}") for x in "qkv"])
    return made


def port(folder: Path, case: tuple[str, str, str], net: Original) -> Any:
    """Write a port and return it."""
    family, spelling, mistake = case
    norm = HEAD.partition("\n\nclass Norm")[0] + "\n" + RMS if family == "t5" else HEAD
    first, rest = norm.partition("\n\n\nclass")[::2]
    text = f"{first}\n\n{SETTINGS[family]}\n\nclass{rest}"
    text += (FUSED if spelling == "fused" else EAGER) + BODIES[family]
    if mistake:
        row = FAMILIES[family][mistake]
        assert row.old in text, case
        text = text.replace(row.old, row.new)
    path = folder / f"{'_'.join(case).replace('-', '_').rstrip('_')}.py"
    path.write_text(text)
    made = source_module(path).Net().eval()
    made.load_state_dict(weights_of(family, net, is_fused=spelling == "fused"))
    return made


def inputs_of(family: str) -> list[torch.Tensor]:
    """Return inputs."""
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(61, (2, 10), generator=generator)
    others = torch.randint(61, (2, 7), generator=generator)
    return {
        "bert": [tokens],
        "vit": [torch.randn(2, 3, 16, 16, generator=generator)],
        "t5": [tokens, others],
        "whisper": [torch.randn(2, 8, 24, generator=generator), others],
    }[family]


def row_of(case: tuple[str, str, str], folder: Path) -> Row:
    """Return what a comparison says of one case, and whether it is right."""
    family, _, mistake = case
    row: Row = {"is_mistake": bool(mistake)}
    net = original(family)
    other = port(folder, case, net)
    examples = inputs_of(family)
    with torch.no_grad():
        row["truth"] = distance(net(*examples), other(*examples))
    if (row["truth"] < WRONG_CASE) == bool(mistake):
        return row | {"said": "the case is wrong"}
    comparison = compared(
        row, lambda: netweave.compare(*(netweave.load(each, examples=examples) for each in (net, other)))
    )
    if mistake and comparison is not None:
        judge(row, comparison, FAMILIES[family][mistake].place, FAMILIES[family][mistake].words)
    return row


def cases() -> list[tuple[str, str, str]]:
    """Return family, spelling and mistake of all cases in their order, right ports first."""
    right = [(family, spelling, "") for family in FAMILIES for spelling in SPELLINGS]
    planted = [
        (family, SPELLINGS[(place + number) % 2], mistake)
        for place, (family, mistakes) in enumerate(FAMILIES.items())
        for number, mistake in enumerate(mistakes)
    ]
    return right + planted


def drawn_cases() -> list[tuple[str, str, str]]:
    """Return cases that nobody ran while the comparer was written."""
    others = [
        (family, next(each for each in SPELLINGS if each != spelling), mistake)
        for family, spelling, mistake in cases()
        if mistake
    ]
    return random.Random(35).sample(others, 12)


OPTIONS = (
    option("--folder", default=Path("build/encoders")),
    option("--held-out", default=False, help="the third that is held out"),
    option("--drawn", default=False, help="the cases that a fixed seed draws"),
    option("--only", default="", help="a pattern of family:spelling:mistake"),
)


def main(options: Namespace, record: Record) -> None:
    """Run the cases, and print the counts."""
    options.folder.mkdir(parents=True, exist_ok=True)
    wanted = {
        ":".join(case): partial(row_of, case, options.folder)
        for number, case in enumerate((drawn_cases if options.drawn else cases)(), 1)
        if (number % HELD_OUT == 0) == options.held_out and re.search(options.only, ":".join(case))
    }
    rows = run_cases(wanted, record)
    print(counts(rows, is_mistake=False), counts(rows, is_mistake=True))
