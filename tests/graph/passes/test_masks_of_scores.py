"""Scores of attention with a bias of each distance before the mask, in two spellings."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from netweave.graph.passes.attention import scores_around  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402


class Attention(torch.nn.Module):
    """Two heads of four features; the bias is added or subtracted, the mask added or chosen."""

    def __init__(self, *, is_chosen, limit=100):
        super().__init__()
        self.qkv = torch.nn.Linear(8, 24)
        self.is_chosen, self.limit = is_chosen, limit

    def forward(self, x):
        q, k, v = (y.unflatten(2, (2, 4)).transpose(1, 2) for y in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(2, 3) / 2
        far = torch.arange(6)[:, None] - torch.arange(6)
        bias = torch.tensor([0.5, 0.25])[:, None, None] * far.clamp(max=self.limit)
        if self.is_chosen:
            scores = (scores - bias).masked_fill(far < 0, float("-inf"))
        else:
            scores = scores + -bias + torch.where(far < 0, torch.finfo(torch.float32).min, 0.0)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


def pair(**changed):
    a = drawn(Attention(is_chosen=False))
    b = copied(a, Attention(is_chosen=True, **changed))
    return [netweave.load(net, input_shapes={"x": (1, 6, 8)}) for net in (a, b)]


def test_bias_and_mask_are_one_mask():
    for graph in pair():
        (softmax,) = (node for node in comparable(graph).nodes if node.op_type == "Softmax")
        scores = scores_around(softmax)
        assert scores.mask.shape == (1, 2, 6, 6)
        steps = np.arange(6)
        seen = steps[:, None] >= steps
        assert np.isneginf(scores.mask[0, 0][~seen]).all()
        assert np.allclose(scores.mask[0, 1][seen], -0.25 * (steps[:, None] - steps)[seen])


def test_bias_before_the_mask_is_identical_in_both_spellings():
    assert compare(*pair()).verdict is Verdict.IDENTICAL


def test_bias_that_ends_at_a_distance_is_found():
    found = compare(*pair(limit=3))
    assert found.verdict is Verdict.DIFFERENT
    assert "differ, most at [0, 0, 5, 0]: -2.5 in A, -1.5 in B" in found.findings[0].cause
