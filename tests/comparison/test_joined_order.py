"""Tensors that are joined in another order, behind another difference or in nets without weights."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from netweave.comparison import compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402

GROWTH, WIDTH, DEPTH = 4, 6, 4


class Growing(nn.Module):
    """A block of a DenseNet: each layer reads what all layers before it made, joined on either side."""

    def __init__(self, *, before: bool = False, eps: float = 1e-5, act: bool = False) -> None:
        super().__init__()
        self.before, self.act = before, act
        widths = [WIDTH + GROWTH * i for i in range(DEPTH)]
        self.first = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.start = nn.BatchNorm2d(WIDTH, eps=eps)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.convs = nn.ModuleList(nn.Conv2d(width, GROWTH, 3, padding=1) for width in widths)
        self.last = nn.Conv2d(WIDTH + GROWTH * DEPTH, 5, 1)

    def forward(self, x):
        x = self.start(self.first(x))
        for norm, conv in zip(self.norms, self.convs, strict=True):
            read = functional.max_pool2d(functional.relu(x), 3, 1, 1) if self.act else x
            made = conv(functional.relu(norm(read)))
            x = torch.cat((made, x) if self.before else (x, made), 1)
        return self.last(x)


def order_of(num_parts: int, *, before: bool) -> list[int]:
    """Return which channel of the plain net stands at each place after some layers."""
    parts = [list(range(WIDTH))]
    for i in range(num_parts):
        start = WIDTH + GROWTH * i
        parts.insert(0 if before else len(parts), list(range(start, start + GROWTH)))
    return [channel for part in parts for channel in part]


def following(right: Growing, ported: Growing) -> Growing:
    """Give a port the weights of a net, in the order in which its layers read the channels."""
    state = dict(right.state_dict())
    for i in range(DEPTH):
        order = order_of(i, before=True)
        for name in ("weight", "bias", "running_mean", "running_var"):
            state[f"norms.{i}.{name}"] = state[f"norms.{i}.{name}"][order]
        state[f"convs.{i}.weight"] = state[f"convs.{i}.weight"][:, order]
    state["last.weight"] = state["last.weight"][:, order_of(DEPTH, before=True)]
    ported.load_state_dict(state)
    return ported.eval()


def untrained(module):
    """Return a net as its code makes it, which nobody trained."""
    graph = load(module)
    graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    return graph


@pytest.mark.parametrize("act", [False, True], ids=["norm reads", "norm reads what is pooled"])
def test_each_concatenation_is_told_of_nets_without_weights(act):
    right, ported = Growing(act=act), Growing(before=True, act=act)
    found = effective(compare(untrained(right), untrained(ported)))
    assert [finding.mismatch for finding in found] == ["input-order"] * DEPTH
    assert len({finding.layer_b for finding in found}) == DEPTH
    assert {finding.fix for finding in found} == {"put the inputs in the order 2, 1"}


@pytest.mark.parametrize("act", [False, True])
def test_each_concatenation_is_told_behind_another_difference(act):
    right = drawn(Growing(act=act))
    ported = copied(right, Growing(before=True, eps=0.1, act=act))
    found = effective(compare(load(right), load(ported)))
    assert sorted(finding.mismatch for finding in found) == ["epsilon", *["input-order"] * DEPTH]


@pytest.mark.parametrize("act", [False, True])
@pytest.mark.parametrize("eps", [1e-5, 0.1])
def test_weights_that_follow_the_order_are_no_difference(eps, act):
    right = drawn(Growing(act=act))
    ported = following(right, Growing(before=True, eps=eps, act=act))
    with torch.no_grad():  # the oracle: PyTorch itself
        x = torch.rand(1, 3, 9, 9)
        assert torch.allclose(right(x), following(right, Growing(before=True, act=act))(x), atol=1e-4)
    comparison = compare(load(right), load(ported))
    assert [finding.mismatch for finding in effective(comparison)] == (["epsilon"] if eps > 0.01 else [])
    assert comparison.equal == (eps < 0.01)


def test_one_concatenation_of_many_in_another_order_is_told_alone():
    class OneTurned(Growing):
        def forward(self, x):
            x = self.start(self.first(x))
            for i, (norm, conv) in enumerate(zip(self.norms, self.convs, strict=True)):
                made = conv(functional.relu(norm(x)))
                x = torch.cat((made, x) if i == 1 else (x, made), 1)
            return self.last(x)

    (finding,) = effective(compare(untrained(Growing()), untrained(OneTurned())))
    assert finding.mismatch == "input-order"
    assert finding.layer_b.startswith("cat")


class Inception(nn.Module):
    """Branches of one width, told apart only by the pooling in front of one of them."""

    def __init__(self, width: int, *, pooled_first: bool) -> None:
        super().__init__()
        self.pooled_first = pooled_first
        self.plain, self.pooled = nn.Conv2d(width, WIDTH, 1), nn.Conv2d(width, WIDTH, 1)
        self.narrow, self.wide = nn.Conv2d(width, GROWTH, 1), nn.Conv2d(GROWTH, WIDTH, 3, padding=1)

    def forward(self, x):
        def plain():
            return functional.relu(self.plain(x))

        def pooled():
            return functional.relu(self.pooled(functional.avg_pool2d(x, 3, 1, 1)))

        first = [pooled(), plain()] if self.pooled_first else [plain(), pooled()]  # as the code is traced
        return torch.cat([*first, functional.relu(self.wide(functional.relu(self.narrow(x))))], 1)


class Faces(nn.Module):
    """Blocks behind a layer that one net leaves out, and layers behind them that there is one of each."""

    def __init__(self, *, pooled_first: bool, scaled: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.scale = nn.BatchNorm2d(16) if scaled else nn.Identity()
        self.second = nn.Conv2d(16, 16, 3, stride=2)
        widths = [16, 3 * WIDTH, 3 * WIDTH]
        self.blocks = nn.Sequential(*(Inception(width, pooled_first=pooled_first) for width in widths))
        self.score = nn.Conv2d(3 * WIDTH, 5, 3)

    def forward(self, x):
        x = self.first(x)
        x = functional.relu(self.scale(torch.cat((x, -x), 1)))
        return self.score(self.blocks(functional.max_pool2d(functional.relu(self.second(x)), 2)))


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [True, False], ids=["behind a layer left out", "alone"])
@pytest.mark.parametrize("pooled_first", [True, False])
def test_branches_are_told_apart_by_what_is_in_front_of_them(scaled, pooled_first):
    """Files write the branches in the order in which they join them, which is not what pairs them."""
    right = Faces(pooled_first=pooled_first, scaled=scaled)
    ported = Faces(pooled_first=not pooled_first, scaled=False)
    found = effective(compare(untrained(right), untrained(ported)))
    expected = ["missing-layer"] * scaled + ["input-order"] * 3
    assert [finding.mismatch for finding in found] == expected
    same = effective(compare(untrained(right), untrained(Faces(pooled_first=pooled_first, scaled=False))))
    assert [finding.mismatch for finding in same] == ["missing-layer"] * scaled
