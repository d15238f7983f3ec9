"""Nets that write the same in two ways are equal, with nothing said of any layer."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from netweave.comparison import compare  # noqa: E402
from tests.comparison.torch_pairs import copied, drawn, effective, load  # noqa: E402


class Block(nn.Module):
    """An inception block that rectifies its branches, or what it joins."""

    def __init__(self, *, behind: bool, plain: int | None = None) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.branches = nn.ModuleList(nn.Conv2d(8, width, 3, padding=1) for width in (4, 6, 8))
        self.last = nn.Conv2d(18, 4, 1)
        self.behind, self.plain = behind, plain

    def forward(self, x):
        parts = [branch(self.first(x)) for branch in self.branches]
        if self.behind:
            return self.last(torch.relu(torch.cat(parts, 1)))
        rectified = [part if i == self.plain else torch.relu(part) for i, part in enumerate(parts)]
        return self.last(torch.cat(rectified, 1))


@pytest.mark.parametrize("behind", [True, False])
def test_relu_behind_a_concatenation_is_relu_in_every_branch(behind):
    right = drawn(Block(behind=behind))
    found = compare(load(right), load(copied(right, Block(behind=not behind))))
    assert found.equal
    assert not found.findings


def test_a_branch_that_is_not_rectified_is_told_all_the_same():
    right = drawn(Block(behind=True))
    found = compare(load(right), load(copied(right, Block(behind=False, plain=1))))
    assert [finding.mismatch for finding in effective(found)] == ["missing-layer"]


class Normalised(nn.Module):
    """Branches that are joined, normalised and rectified, with a layer to leave out."""

    def __init__(self, *, without: bool) -> None:
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(3, width, 3, padding=1) for width in (4, 6))
        self.norm = nn.Identity() if without else nn.BatchNorm2d(10)
        self.last = nn.Conv2d(10, 4, 1)

    def forward(self, x):
        joined = torch.cat([branch(x) for branch in self.branches], 1)
        return self.last(torch.relu(self.norm(joined)))


def test_a_layer_left_out_between_a_concatenation_and_relu_is_told_by_itself():
    """Both nets rectify what they have joined: neither is brought into another form for it."""
    right = drawn(Normalised(without=False))
    port = Normalised(without=True)
    port.load_state_dict({key: value for key, value in right.state_dict().items() if "norm" not in key})
    (finding,) = effective(compare(load(right), load(port)))
    assert (finding.mismatch, finding.layer_a) == ("missing-layer", "norm")


class Halves(nn.Module):
    """A net that splits its channels by the operator, or by indexing, as ShuffleNet and DPN do."""

    def __init__(self, *, split: bool, swapped: bool = False) -> None:
        super().__init__()
        self.first, self.one = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.last = nn.Conv2d(8, 4, 1)
        self.split, self.swapped = split, swapped

    def forward(self, x):
        x = torch.relu(self.first(x))
        for _ in range(3):
            a, b = torch.split(x, 4, 1) if self.split else (x[:, :4, :, :], x[:, 4:, :, :])
            a, b = (b, a) if self.swapped else (a, b)
            x = torch.cat((a, torch.relu(self.one(b))), 1)
        return self.last(x)


@pytest.mark.parametrize("split", [True, False])
def test_a_split_is_the_slices_of_its_parts(split):
    right = drawn(Halves(split=split))
    found = compare(load(right), load(copied(right, Halves(split=not split))))
    assert found.equal
    assert not found.findings


def test_halves_that_are_swapped_are_told_all_the_same():
    right = drawn(Halves(split=True))
    found = compare(load(right), load(copied(right, Halves(split=False, swapped=True))))
    assert not found.equal
    assert effective(found)
