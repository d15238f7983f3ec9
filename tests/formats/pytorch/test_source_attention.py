"""Attention in PyTorch source: modules and functions of PyTorch that compute what ONNX Runtime does."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from tests.formats.onnx.models import load, run
from tests.formats.pytorch.test_source import imported
from tests.graph.passes.attention_nets import FORMS
from tests.graph.passes.test_attention import inputs_of

torch = pytest.importorskip("torch")

WORDS = {
    "by parts": "nn.MultiheadAttention(12, 3, batch_first=True)",
    "packed": "nn.MultiheadAttention(12, 3, batch_first=True)",
    "steps first": "nn.MultiheadAttention(12, 3, batch_first=True)",
    "flattened": "attention(q, k, v, num_heads=3, is_causal=True)",
    "chosen": "attention(q, k, v, num_heads=3, is_causal=True)",
    "across": "need_weights=False)[0]",
    "with a bias of positions": "num_heads=3)",
    "without projections": "num_heads=3)",
    "changed by head": "F.scaled_dot_product_attention(",
}
"""What a person would write for each form."""


@pytest.mark.parametrize("name", FORMS)
def test_written_attention_computes_what_the_parts_do(name, tmp_path):
    made = FORMS[name].net
    netweave.save(load(made, tmp_path), tmp_path / "written.py")
    inputs = inputs_of(made)
    (expected,) = run(made, inputs)
    with torch.no_grad():
        found = imported(tmp_path / "written.py").load()(*map(torch.from_numpy, inputs.values()))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert WORDS[name] in (tmp_path / "written.py").read_text()
