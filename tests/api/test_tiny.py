"""Nets of Hugging Face and their ports, shrunk. What needs Transformers is checked where it is installed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import netweave
from netweave.api import load_for_inspection
from netweave.errors import SourceError, UsageError
from netweave.files import sandbox

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 512,
    "intermediate_size": 1024,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 31999,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}

PORT = """
import json
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def turn(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.shared = c.num_attention_heads, c.num_key_value_heads
        self.dim = c.hidden_size // self.heads
        self.q_proj = nn.Linear(c.hidden_size, self.heads * self.dim, bias=False)
        self.k_proj = nn.Linear(c.hidden_size, self.shared * self.dim, bias=False)
        self.v_proj = nn.Linear(c.hidden_size, self.shared * self.dim, bias=False)
        self.o_proj = nn.Linear(self.heads * self.dim, c.hidden_size, bias=False)

    def forward(self, x, cos, sin):
        n, steps, _ = x.shape
        q, k, v = (f(x).view(n, steps, -1, self.dim).transpose(1, 2)
                   for f in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (y.REPEAT for y in (turn(k, cos, sin), v))
        y = F.scaled_dot_product_attention(turn(q, cos, sin), k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(n, steps, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = Norm(c.hidden_size, c.rms_norm_eps)
        self.post_attention_layernorm = Norm(c.hidden_size, c.rms_norm_eps)
        self.self_attn, self.mlp = Attention(c), MLP(c)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        dim = c.hidden_size // c.num_attention_heads
        self.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.num_hidden_layers))
        self.norm = Norm(c.hidden_size, c.rms_norm_eps)
        freq = 1.0 / c.rope_theta ** (torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("freq", freq, persistent=False)

    def forward(self, ids):
        x = self.embed_tokens(ids)
        angles = torch.arange(ids.shape[1])[:, None] * self.freq
        for layer in self.layers:
            x = layer(x, angles.cos(), angles.sin())
        return self.norm(x)


class Llama(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Model(config)

    def forward(self, ids):
        return F.linear(self.model(ids), self.model.embed_tokens.weight)


class Renamed(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.net = Llama(config)
        self.net.body = self.net.model
        del self.net.model
        self.net.model = lambda ids: self.net.body(ids)
        self.net.forward = lambda ids: F.linear(self.net.body(ids), self.net.body.embed_tokens.weight)

    def forward(self, ids):
        return self.net(ids)


class Wide(Llama):
    def __init__(self, config):
        super().__init__(config)
        self.model.norm = Norm(512, config.rms_norm_eps)


class Fixed(Llama):
    def __init__(self):
        super().__init__(SimpleNamespace(**CONFIG))


def load(folder, theta=10000.0):
    from safetensors.torch import load_file

    config = json.loads((Path(folder) / "config.json").read_text())
    net = Llama(SimpleNamespace(**{**config, "rope_theta": theta}))
    net.load_state_dict(load_file(str(Path(folder) / "model.safetensors")), strict=False)
    return net
"""

REPEATED, TILED = (
    "repeat_interleave(self.heads // self.shared, 1)",
    "repeat(1, self.heads // self.shared, 1, 1)",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder of a config.json alone, and ports beside it."""
    path = tmp_path / "model"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(CONFIG))
    text = PORT.replace("CONFIG", repr(CONFIG))
    (tmp_path / "port.py").write_text(text.replace("REPEAT", REPEATED))
    (tmp_path / "wrong.py").write_text(text.replace("REPEAT", TILED))
    return path


def compare(folder: Path, port: str, **options: Any) -> netweave.Comparison:
    return netweave.compare(
        folder, f"{folder.parent}/{port}", tiny=True, trust=not sandbox.has_guard(), **options
    )


def test_nets_that_cannot_be_shrunk_are_refused(tmp_path: Path) -> None:
    (tmp_path / "port.py").write_text("import torch")
    with pytest.raises(UsageError, match=r"shrinks a Hugging Face model folder .* none of the nets is one"):
        netweave.compare(tmp_path / "port.py", tmp_path / "port.py", tiny=True)
    graph = netweave.Graph(model=None)  # type: ignore[arg-type]  # it is not looked at
    with pytest.raises(UsageError, match="name folders and files of code, not a net in memory"):
        netweave.compare(tmp_path, graph, tiny=True)


@pytest.mark.slow
@pytest.mark.multi
@pytest.mark.oracle
class TestWithTransformers:
    """Pairs of a folder and a port."""

    @pytest.fixture(autouse=True)
    def _packages(self) -> None:
        pytest.importorskip("torch")
        pytest.importorskip("transformers")

    def test_a_right_port_is_identical_and_what_that_does_not_show_is_said(self, folder: Path) -> None:
        compared = compare(folder, "port.py:Llama")
        assert compared.verdict is netweave.Verdict.IDENTICAL
        assert not compared.findings
        assert (
            "the full size (both were shrunk; real weights, dtype bfloat16, num_hidden_layers 6"
            in compared.sentence
        )
        assert str(folder) in compared.a.files[0]
        assert any("num_attention_heads 16 to 8" in note for note in compared.notes)

    def test_a_wrong_port_is_different_at_its_line(self, folder: Path) -> None:
        compared = compare(folder, "wrong.py:Llama")
        assert compared.verdict is netweave.Verdict.DIFFERENT
        assert any("tile" in finding.cause for finding in compared.findings)

    def test_a_port_that_loads_the_folder_itself(self, folder: Path) -> None:
        same = compare(folder, f"port.py:load('{folder}')")
        assert same.verdict is netweave.Verdict.IDENTICAL
        apart = compare(folder, f"port.py:load('{folder}', theta=500.0)")
        assert apart.verdict is netweave.Verdict.DIFFERENT
        assert any("500" in finding.cause for finding in apart.findings)

    def test_weights_are_copied_to_a_port_with_names_of_its_own(self, folder: Path) -> None:
        compared = compare(folder, "port.py:Renamed")
        assert compared.verdict is netweave.Verdict.STRUCTURE
        assert "the full size" in compared.sentence

    def test_a_port_with_sizes_of_its_own_is_refused(self, folder: Path) -> None:
        with pytest.raises(
            SourceError, match=r"norm\.weight has \(128,\), expected \(512,\).*take all of its sizes"
        ):
            compare(folder, "port.py:Wide")
        with pytest.raises(UsageError, match=r"Fixed\(\) takes none of the settings of the shrunk config"):
            compare(folder, "port.py:Fixed")
        with pytest.raises(UsageError, match=r"leave out 'real.pt', which are of the full size"):
            compare(folder, "port.py:Llama,real.pt")
        with pytest.raises(UsageError, match=r"not those of other.json: leave out --config"):
            compare(folder, "port.py:Llama", config="other.json")

    def test_a_folder_alone_is_shown_shrunk(self, folder: Path) -> None:
        graph = load_for_inspection(folder, tiny=True, trust=not sandbox.has_guard())
        assert graph.num_parameters < 500_000
        assert any("vocab_size 32,000 to 128" in note for note in graph.notes)
