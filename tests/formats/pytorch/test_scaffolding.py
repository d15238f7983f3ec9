"""What PyTorch's exporter writes beside the operators that a module asked for is gone after reading."""

from __future__ import annotations

import pytest

import netweave

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

from torch import nn  # noqa: E402 - needs torch


class Shuffled(nn.Module):
    """Halves, of which one is changed and put first; and parts of given sizes."""

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        first, _, last = torch.split(x, [1, 2, 3], dim=1)
        return torch.cat([b, a.relu(), last, first], 1)


MODULES = {
    "chunk": (Shuffled(), ["Split", "Split", "Relu", "Concat"]),
    "ELU": (nn.ELU(0.5), ["Elu"]),
    "LocalResponseNorm": (nn.LocalResponseNorm(5, alpha=0.5), ["LRN"]),
    "ZeroPad2d": (nn.Sequential(nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(6, 4, 3, 2)), ["Conv"]),
}


@pytest.mark.parametrize(("module", "kinds"), MODULES.values(), ids=MODULES)
def test_one_operator_is_left(module, kinds):
    x = torch.randn(3, 6, 9, 8, generator=torch.Generator().manual_seed(0)) * 3
    graph = netweave.load(module, examples=[x])
    assert [node.op_type for node in graph.nodes] == kinds
    module.eval()
    with torch.no_grad():
        expected = module(x).numpy()
    (found,) = netweave.run(graph, {graph.inputs[0].name: x.numpy()}).values()
    assert abs(found - expected).max() <= 1e-5 * abs(expected).max()
