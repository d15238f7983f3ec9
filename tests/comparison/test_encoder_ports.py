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

    def __init__(self, *, kind_first=True, scales_queries=True, fill=-3e38, kind=0, start=0):
        super().__init__()
        self.word, self.place = torch.nn.Embedding(11, WIDTH), torch.nn.Embedding(9, WIDTH)
        self.kind, self.rel = torch.nn.Embedding(2, WIDTH), torch.nn.Embedding(STEPS, 2)
        self.q, self.k, self.v = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.kind_first, self.scales_queries, self.fill, self.which = kind_first, scales_queries, fill, kind
        self.start = start

    def forward(self, ids):
        terms = [self.kind.weight[self.which], self.place.weight[self.start : self.start + STEPS]]
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
    first = comparison.findings[0]
    assert first.mismatch == "position-rows"
    assert "another row of the table of token types" in first.cause
    assert first.error_fixed <= 1e-5


def test_positions_that_start_elsewhere_are_named(original):
    first = found(original, start=2).findings[0]
    assert first.mismatch == "position-rows"
    assert "start 2 behind A's: step t has those of step t + 2" in first.cause
    assert first.fix == "start the positions 2 earlier"
    assert first.error_fixed <= 1e-5


class Divided(torch.nn.Module):
    """An RMS norm between two dense layers, or one that subtracts the mean before it squares."""

    def __init__(self, *, centred=False, has_bias=False):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, WIDTH), torch.nn.Linear(WIDTH, 3, bias=has_bias)
        self.weight, self.centred = torch.nn.Parameter(torch.ones(WIDTH)), centred

    def forward(self, x):
        x = self.first(x)
        square = x.var(-1, keepdim=True, unbiased=False) if self.centred else x.pow(2).mean(-1, keepdim=True)
        return self.last(torch.tanh(self.weight * x * torch.rsqrt(square + 1e-5)))


def test_a_mean_that_is_subtracted_before_the_square_is_named():
    nets = [Divided(), Divided(centred=True)]
    copied(drawn(nets[0]), nets[1])
    comparison = compare(*(netweave.load(net, input_shapes={"x": (1, 4, 5)}) for net in nets))
    first = comparison.findings[0]
    assert (comparison.verdict, first.mismatch) == (Verdict.DIFFERENT, "norm-centring")
    assert "B subtracts the mean before it squares" in first.cause
    assert first.error_fixed <= 1e-5


class Block(torch.nn.Module):
    """Two branches of one residual, or the second of the sum with the first."""

    def __init__(self, *, is_parallel=True):
        super().__init__()
        self.embed, self.is_parallel = torch.nn.Linear(5, WIDTH), is_parallel
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.mix, self.mlp, self.head = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(3))

    def forward(self, x):
        x = torch.tanh(self.embed(x))
        mixed = self.mix(self.norm1(x))
        if self.is_parallel:
            return self.head(self.mlp(self.norm2(x)) + mixed + x)
        x = x + mixed
        return self.head(x + self.mlp(self.norm2(x)))


@pytest.mark.parametrize("is_parallel", [True, False])
def test_a_residual_that_one_net_adds_before_the_second_branch_is_named(is_parallel):
    nets = [Block(is_parallel=is_parallel), Block(is_parallel=not is_parallel)]
    copied(drawn(nets[0]), nets[1])
    comparison = compare(*(netweave.load(net, input_shapes={"x": (1, 4, 5)}) for net in nets))
    first = comparison.findings[0]
    assert (comparison.verdict, first.mismatch) == (Verdict.DIFFERENT, "residual-order")
    assert ("'norm2' of A reads the residual, in parallel" in first.cause) == is_parallel
    assert first.layer_a == first.layer_b == "norm2"


@pytest.mark.parametrize(("bias", "findings"), [(0.0, 0), (0.5, 1)])
def test_a_bias_of_zeros_that_one_net_stores_is_no_finding(bias, findings):
    plain, biased = drawn(Divided()), Divided(has_bias=True)
    with torch.no_grad():
        biased.load_state_dict(plain.state_dict() | {"last.bias": torch.full((3,), bias)})
    comparison = compare(*(netweave.load(net, input_shapes={"x": (1, 4, 5)}) for net in (plain, biased)))
    assert len(comparison.findings) == findings
    assert (comparison.verdict is Verdict.IDENTICAL) == (not findings)


@pytest.mark.parametrize("is_of_b", [True, False])
def test_a_norm_that_one_net_lacks_is_said_to_be_one(is_of_b):
    def net(*, has_norm):
        norm = torch.nn.LayerNorm(WIDTH) if has_norm else torch.nn.Identity()
        embed = torch.nn.Sequential(torch.nn.Linear(5, WIDTH), norm, torch.nn.Linear(WIDTH, 3))
        return drawn(torch.nn.Sequential(embed), seed=1)

    nets = [net(has_norm=not is_of_b), net(has_norm=is_of_b)]
    dense = [[layer for layer in each.modules() if isinstance(layer, torch.nn.Linear)] for each in nets]
    for own, other in zip(*dense, strict=True):
        copied(own, other)
    comparison = compare(*(netweave.load(each, input_shapes={"input": (1, 4, 5)}) for each in nets))
    owner, lacking = ("B", "A") if is_of_b else ("A", "B")
    assert comparison.verdict is Verdict.DIFFERENT
    assert f"{owner} has 0.1 (a layer norm) here, {lacking} has nothing" in comparison.findings[0].cause


class Patches(torch.nn.Module):
    """Patches of an image and the token of a class, which comes first or last."""

    def __init__(self, *, is_last):
        super().__init__()
        self.patch, self.kind = torch.nn.Conv2d(3, WIDTH, 2, 2), torch.nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.place, self.norm = torch.nn.Parameter(torch.zeros(1, 5, WIDTH)), torch.nn.LayerNorm(WIDTH)
        self.mix, self.head, self.is_last = torch.nn.Linear(5, 5), torch.nn.Linear(WIDTH, 3), is_last

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        kind = self.kind.expand(x.shape[0], -1, -1)
        x = self.norm(torch.cat((x, kind) if self.is_last else (kind, x), 1) + self.place)
        return self.head(self.mix(x.transpose(1, 2)).transpose(1, 2)[:, 0])


@pytest.mark.parametrize("is_last", [True, False])
def test_a_token_that_comes_last_is_told_by_the_order_of_what_is_joined(is_last):
    a = drawn(Patches(is_last=not is_last))
    nets = [a, copied(a, Patches(is_last=is_last))]
    first = compare(*(netweave.load(net, input_shapes={"x": (2, 3, 4, 4)}) for net in nets)).findings[0]
    assert (first.mismatch, first.fix) == ("input-order", "put the inputs in the order 2, 1")
