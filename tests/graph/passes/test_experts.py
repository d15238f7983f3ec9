"""Mixtures of experts that look up the weights of the chosen ones, and such that compute all."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from netweave.graph.passes.experts import compute_all_experts, num_looked_up  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402

SHAPE = (1, 5, 6)


class Mixture(torch.nn.Module):
    """Three experts, of which each step has two; as Transformers looks them up, or one after another."""

    def __init__(self, *, looks_up, is_normalized=True):
        super().__init__()
        self.router = torch.nn.Linear(6, 3, bias=False)
        self.first = torch.nn.Parameter(torch.zeros(3, 8, 6))
        self.second = torch.nn.Parameter(torch.zeros(3, 6, 4))
        self.looks_up, self.is_normalized = looks_up, is_normalized

    def forward(self, x):
        return self.look_up(x) if self.looks_up else self.add_up(x)

    def chosen(self, x):
        shares, index = torch.topk(self.router(x).softmax(-1), 2, dim=-1)
        return (shares / shares.sum(-1, keepdim=True) if self.is_normalized else shares), index

    def look_up(self, x):
        rows = x.reshape(-1, 6)
        shares, index = self.chosen(rows)
        steps = rows.repeat_interleave(2, dim=0)[:, :, None]
        gate, up = torch.bmm(self.first[index.reshape(-1)], steps).squeeze(-1).chunk(2, dim=-1)
        made = torch.bmm(self.second[index.reshape(-1)], (gate.sigmoid() * gate * up)[:, :, None]).squeeze(-1)
        return (made * shares.reshape(-1, 1)).view(-1, 2, 6).sum(1).view(x.shape)

    def add_up(self, x):
        shares, index = self.chosen(x)
        spread = torch.zeros(*x.shape[:-1], 3).scatter(-1, index, shares)
        total = 0
        for expert in range(3):
            gate, up = torch.nn.functional.linear(x, self.first[expert]).chunk(2, dim=-1)
            made = torch.nn.functional.linear(torch.nn.functional.silu(gate) * up, self.second[expert])
            total = total + spread[..., expert, None] * made
        return total


def pair(**changed):
    a = drawn(Mixture(looks_up=True))
    b = copied(a, Mixture(looks_up=False, **changed))
    return [netweave.load(net, input_shapes={"x": SHAPE}) for net in (a, b)]


def test_all_experts_compute_what_the_chosen_ones_do():
    graph, other = map(comparable, pair())
    assert [num_looked_up(net) for net in (graph, other)] == [1, 0]
    written = compute_all_experts(graph)
    assert num_looked_up(written) == 0
    assert not any(node.op_type == "GatherND" for node in written.nodes)
    x = {"x": np.random.default_rng(0).standard_normal((2, *SHAPE[1:]), np.float32)}
    (wanted,) = netweave.run(graph, x).values()
    (found,) = netweave.run(written, x).values()
    assert np.allclose(wanted, found, atol=1e-6 * np.abs(wanted).max())


def test_both_are_identical_without_a_finding():
    found = compare(*pair())
    assert found.verdict is Verdict.IDENTICAL
    assert not found.findings


def test_shares_that_are_not_normalised_are_found():
    found = compare(*pair(is_normalized=False))
    assert found.verdict is Verdict.DIFFERENT
    assert found.findings[0].cause == "A has sum_1, div here, B has nothing after topk"
