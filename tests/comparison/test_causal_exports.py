"""Causal attention of a module against its own exports, in which the mask is computed from sizes."""

from __future__ import annotations

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

import netweave  # noqa: E402
from netweave.comparison import Verdict  # noqa: E402

WIDTH, HEADS = 8, 2


class Causal(nn.Module):
    """Attention to earlier patches of a picture, or to earlier steps of a sequence."""

    def __init__(self, *, patches: bool) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, stride=4) if patches else nn.Linear(5, WIDTH)
        self.positions = nn.Parameter(torch.randn(1, 12, WIDTH))
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.patches = patches

    def forward(self, x):
        x = self.embed(x)
        x = x.flatten(2).transpose(1, 2) if self.patches else x
        batch, steps, _ = x.shape
        x = x + self.positions[:, :steps]
        q, k, v = self.qkv(x).reshape(batch, steps, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, steps, WIDTH))


@pytest.mark.parametrize(
    ("patches", "opset", "dynamo"),
    [(True, 17, False), (False, 17, False), (False, 23, True)],
    ids=["patches, traced", "steps, traced", "the operator Attention"],
)
def test_a_causal_module_is_identical_to_its_export(tmp_path, patches, opset, dynamo):
    torch.manual_seed(3)
    module = Causal(patches=patches).eval()
    x = torch.randn(1, 3, 16, 12) if patches else torch.randn(1, 9, 5)
    path = str(tmp_path / "net.onnx")
    settings = {"verbose": False}
    if not dynamo:  # with an open batch, all sizes are computed
        settings |= {"input_names": ["x"], "dynamic_axes": {"x": {0: "batch"}}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporters' own
        torch.onnx.export(module, (x,), path, opset_version=opset, dynamo=dynamo, **settings)
    graph = netweave.load(module, input_shapes={"x": tuple(x.shape)})
    found = netweave.compare(graph, netweave.load(path))
    assert found.verdict is Verdict.IDENTICAL, found.sentence
