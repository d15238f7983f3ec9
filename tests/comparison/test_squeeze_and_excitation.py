"""Squeeze-and-excitation with convolutions of one pixel, as Caffe writes it, and with dense layers."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from netweave.comparison import compare  # noqa: E402
from netweave.comparison.fixes.python_source import edit_python  # noqa: E402
from netweave.comparison.result.comparison import Edit  # noqa: E402
from tests.comparison.torch_pairs import drawn, effective, load  # noqa: E402


class Squeeze(nn.Module):
    """A block that weighs its channels."""

    def __init__(self, *, dense: bool = False, bias: bool = True, expanded: bool = False) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 4, 3)
        self.dense, self.expanded = dense, expanded
        if dense:
            self.down, self.up = nn.Linear(16, 4, bias=bias), nn.Linear(4, 16, bias=bias)
        else:
            self.down, self.up = nn.Conv2d(16, 4, 1, bias=bias), nn.Conv2d(4, 16, 1, bias=bias)

    def forward(self, x):
        x = self.first(x)
        pooled = nn.functional.adaptive_avg_pool2d(x, 1)
        pooled = pooled.view(x.size(0), -1) if self.dense else pooled
        weight = torch.sigmoid(self.up(torch.relu(self.down(pooled))))
        weight = weight.view(x.size(0), 16, 1, 1) if self.dense else weight
        return self.last(x * (weight.expand_as(x) if self.expanded else weight))


def without_weights(module):
    graph = load(module)
    graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    return graph


def test_a_bias_that_a_dense_layer_lacks_is_told_from_the_convolution_that_it_stands_for():
    found = compare(load(drawn(Squeeze())), without_weights(Squeeze(dense=True, bias=False, expanded=True)))
    assert [(f.mismatch, f.layer_b, f.fix) for f in effective(found)] == [
        ("missing-bias", "down", "bias=True"),
        ("missing-bias", "up", "bias=True"),
    ]


@pytest.mark.parametrize("expanded", [True, False])
def test_what_is_expanded_to_the_size_that_it_is_broadcast_to_is_no_difference(expanded):
    found = compare(load(drawn(Squeeze())), without_weights(Squeeze(dense=True, expanded=expanded)))
    assert found.same_structure
    assert not found.findings


def test_the_number_of_slopes_is_an_argument_that_can_be_written():
    edits = [Edit("num_parameters", "10")]
    assert edit_python("act = nn.PReLU()\n", 1, "act", edits) == "act = nn.PReLU(num_parameters=10)\n"
    assert edit_python("act = nn.PReLU(1, init=0.1)\n", 1, "act", edits) == "act = nn.PReLU(10, init=0.1)\n"
