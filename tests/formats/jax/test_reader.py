"""Files with functions of JAX, read in the sandbox."""

from __future__ import annotations

import re
import runpy

import numpy as np
import pytest

import netweave
from netweave.errors import CodeError, ShapeError, UnsupportedError, UsageError
from netweave.files.sandbox import has_guard
from netweave.formats.jax import reader

pytest.importorskip("jax")
pytestmark = pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")

NET = """import jax
import jax.numpy as jnp
import numpy as np


@jax.jit
def dense(p, x):
    return x @ p["kernel"] + p["bias"]


def forward(params, ids, mask):
    x = params["words"][ids] * mask[..., None]
    for p in params["layers"]:
        x = jax.nn.silu(dense(p, x))
    return x.sum(1) / mask.sum(1)[:, None]


def load(path):
    w = {name: jnp.asarray(x) for name, x in np.load(path).items()}
    layers = [{"kernel": w[f"{i}.w"].T, "bias": w[f"{i}.b"]} for i in range(2)]
    return {"words": w["words"], "layers": layers}
"""
IDS = np.array([[1, 4, 0, 2, 2], [3, 3, 3, 0, 1], [0, 1, 2, 3, 4]])
SHAPES = {"ids": (1, 5), "mask": (1, 5)}


@pytest.fixture
def net(tmp_path):
    draw = np.random.default_rng(0).normal
    arrays = {"words": draw(size=(7, 6))}
    arrays |= {f"{i}.w": draw(size=(6, 6)) for i in range(2)} | {f"{i}.b": draw(size=6) for i in range(2)}
    np.savez(tmp_path / "w.npz", **{name: x.astype(np.float32) for name, x in arrays.items()})
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


def test_a_function_of_parameters_computes_what_jax_computes(net):
    """Whole numbers are found by trying, the batch stays open; layers are named by their parameters.

    What the net's own compiled function calls are layers of their own.
    """
    graph = netweave.load(f"{net},{net.with_name('w.npz')}", input_shapes=SHAPES)
    mask = (IDS > 0).astype(np.float32)
    made = netweave.run(graph, {"ids": IDS, "mask": mask})
    code = runpy.run_path(str(net))
    expected = np.asarray(code["forward"](code["load"](net.with_name("w.npz")), IDS, mask))
    np.testing.assert_allclose(next(iter(made.values())), expected, atol=1e-5)
    assert graph.format == "jax"
    assert graph.files == (str(net), str(net.with_name("w.npz")))
    assert {"words", "layers.0.kernel", "layers.1.bias"} <= graph.parameters.keys()
    layers = {layer.name: layer for layer in graph.layers.values()}
    line = NET.splitlines().index('    return x @ p["kernel"] + p["bias"]') + 1
    assert layers["layers.0.dot_general"].origin.line == line
    assert "silu" in {layer.type for layer in graph.layers.values()}


def test_a_wrong_port_is_different_and_sizes_are_found_together(net):
    other = net.with_name("other.py")
    other.write_text(NET.replace("jax.nn.silu", "jax.nn.relu"))
    wrong = netweave.compare(*(f"{path}:load('{net.with_name('w.npz')}')" for path in (net, other)))
    assert not wrong.equal
    line = NET[: NET.index("jax.nn.silu")].count("\n") + 1
    assert f"other.py:{line}" in str(wrong)
    assert any(
        "has no size (set one with --input-shape); its code takes: 1x16" in note for note in wrong.a.notes
    )


def written(tmp_path, text):
    path = tmp_path / "code.py"
    path.write_text("import jax\nimport jax.numpy as jnp\n" + text)
    return path


def test_a_function_that_holds_its_parameters(tmp_path):
    """The only input is tried with usual sizes."""
    text = "W = jnp.arange(24.0).reshape(6, 4)\ndef make():\n    return lambda x: x[:, :6] @ W\n"
    graph = netweave.load(f"{written(tmp_path, text)}:make")
    assert graph.assumed == {"x": (1, 16)}
    assert "traced with Nx16, the first that its code takes" in graph.notes[0]


@pytest.mark.parametrize("sizes", [{"x": (1, 3, 8, 6)}, {"x": (1, 8, 6, 3)}])
def test_sizes_of_pictures_are_taken_with_the_channels_last_where_the_code_has_them_so(tmp_path, sizes):
    """A comparison gives those of the net before, which may have its channels first."""
    text = "W = jnp.arange(12.0).reshape(3, 4)\ndef make():\n    return lambda x: (x @ W).mean((1, 2))\n"
    graph = netweave.load(f"{written(tmp_path, text)}:make", input_shapes=sizes)
    assert graph.declared["x"][1:] == (8, 6, 3)


def test_trusted_code_leaves_nothing_in_the_callers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, "def make():\n    return lambda x: jnp.tanh(x)\n")
    there = {path.name for path in tmp_path.iterdir()}
    graph = netweave.load(f"{file}:make", trust=True, input_shapes={"x": (2, 3)})
    assert graph.declared["x"][1:] == (3,)
    assert {path.name for path in tmp_path.iterdir()} - {"__pycache__"} == there


BAD = {
    "def make():\n    return {'w': jnp.ones(3)}\n": (
        UsageError,
        "no function that takes them and the inputs",
    ),
    "def make():\n    return 3\n": (UsageError, "makes a int, expected a function or a tree of arrays"),
    "def make():\n    return lambda x, y: x @ y\n": (
        ShapeError,
        r"the size of input 'x', 'y' is unknown: set it",
    ),
    "def make():\n    return lambda x: jax.lax.erf_inv(x)\n": (UnsupportedError, r"erf_inv \(.*code.py:4\)"),
}


@pytest.mark.parametrize("text", BAD)
def test_code_that_cannot_be_read_says_why(tmp_path, text):
    kind, message = BAD[text]
    with pytest.raises(kind, match=message):
        netweave.load(f"{written(tmp_path, text)}:make")


def test_code_that_fails_at_the_given_sizes(net):
    with pytest.raises(CodeError, match="its code fails on inputs of these sizes: TypeError"):
        netweave.load(f"{net}:load('{net.with_name('w.npz')}')", input_shapes={"ids": (1, 5), "mask": (1, 4)})


def test_without_jax_the_message_says_what_else_can_be_done(net, monkeypatch):
    monkeypatch.setattr(reader, "find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match=re.escape("JAX, which is not installed")) as caught:
        netweave.load(f"{net}:load", input_shapes=SHAPES)
    assert "dump of its tensors" in str(caught.value)


SAME = """
import jax
import jax.numpy as jnp


def make():
    return {"kernel": jnp.full((3, 3, 3, 4), 0.1)}


def forward(params, x):
    return jax.lax.conv_general_dilated(
        x, params["kernel"], (2, 2), "SAME", dimension_numbers=("NCHW", "HWIO", "NCHW")
    ).mean((2, 3))
"""

PADDED = """
import torch
from torch.nn import functional


class Padded(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, stride=2, bias=False)
        torch.nn.init.constant_(self.conv.weight, 0.1)

    def forward(self, x):
        rows, columns = (max((-(-size // 2) - 1) * 2 + 3 - size, 0) for size in x.shape[2:])
        pads = (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2)
        return self.conv(functional.pad(x, pads)).mean((2, 3))
"""


def test_paddings_of_the_traced_size_are_not_held_against_code_of_open_sizes(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "port.py").write_text(SAME)
    (tmp_path / "original.py").write_text(PADDED)
    a, b = (netweave.load(f"{tmp_path}/{name}") for name in ("original.py:Padded", "port.py:make"))
    found = netweave.compare(a, b)
    assert found.equal
    assert "own size alone" in found.sentence
