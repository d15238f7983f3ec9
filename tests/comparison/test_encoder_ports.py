"""Spellings of BERT's embeddings, of Whisper's queries and of T5's biases that compute the same."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402
from netweave.comparison import Verdict, compare  # noqa: E402
from netweave.comparison.metric import comparable  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn  # noqa: E402

STEPS, WIDTH = 6, 8


class Encoder(torch.nn.Module):
    """Embeddings and attention with a bias; each part in one of two spellings."""

    def __init__(self, *, kind_first=True, scales_queries=True, fill=-3e38, kind=0):
        super().__init__()
        self.word, self.place = torch.nn.Embedding(11, WIDTH), torch.nn.Embedding(9, WIDTH)
        self.kind, self.rel = torch.nn.Embedding(2, WIDTH), torch.nn.Embedding(STEPS, 2)
        self.q, self.k, self.v = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.kind_first, self.scales_queries, self.fill, self.which = kind_first, scales_queries, fill, kind

    def forward(self, ids):
        terms = [self.kind.weight[self.which], self.place.weight[: ids.shape[1]]]
        x = self.word(ids)
        for term in terms if self.kind_first else terms[::-1]:
            x = x + term
        q = self.q(x) * (0.5 if self.scales_queries else 1.0)
        q, k, v = (y.unflatten(2, (2, 4)).transpose(1, 2) for y in (q, self.k(x), self.v(x)))
        scores = q @ k.transpose(2, 3) * (1.0 if self.scales_queries else 0.5)
        steps = torch.arange(STEPS)
        bias = self.rel((steps[:, None] - steps).abs()).permute(2, 0, 1)
        scores = scores + torch.where(steps[:, None] >= steps, bias, self.fill)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


@pytest.fixture(scope="module")
def original():
    return drawn(Encoder())


def found(original, **changed):
    shapes = {"ids": (1, STEPS)}
    nets = [
        netweave.load(net, input_shapes=shapes) for net in (original, copied(original, Encoder(**changed)))
    ]
    return compare(*nets)


@pytest.mark.parametrize(
    "changed",
    [{"kind_first": False}, {"scales_queries": False}, {"scales_queries": False, "fill": float("-inf")}],
)
def test_other_spellings_are_identical(original, changed):
    comparison = found(original, **changed)
    assert comparison.verdict is Verdict.IDENTICAL
    assert not comparison.findings


def test_stored_terms_are_one_array(original):
    graph = comparable(netweave.load(original, input_shapes={"ids": (1, STEPS)}))
    readers = [use.node for use in graph.nodes[0].outputs[0].uses()]
    assert [node.op_type for node in graph.nodes[:2]] == ["Gather", "Add"]
    assert readers == [graph.nodes[1]]
    assert {use.node.op_type for use in graph.nodes[1].outputs[0].uses()} == {"MatMul"}


def test_another_type_of_token_is_found_at_its_term(original):
    comparison = found(original, kind=1)
    assert comparison.verdict is Verdict.DIFFERENT
    assert "addend" in comparison.findings[0].cause
