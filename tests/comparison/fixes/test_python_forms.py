"""Differences in forms in which people write nets: found, mended in the source, and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

import netweave
from netweave.comparison.fixes import mend
from netweave.files.sandbox import has_guard

pytest.importorskip("torch")

pytestmark = pytest.mark.slow

SHAPES = {"x": (1, 3, 24, 24)}

RETURNS = """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2),
            nn.ReLU(),
            nn.Conv2d(8, 8, 3),
            nn.ReLU(inplace=True),
        )
        self.boxes, self.scores = nn.Linear(8, 4), nn.Linear(8, 5)

    def forward(self, x):
        x = self.features(40 * x).mean((2, 3))
        return self.boxes(x), torch.softmax(self.scores(x), dim=1)
"""


def read(path: Path) -> netweave.Graph:
    return netweave.load(path, input_shapes=SHAPES, trust=not has_guard())


def mended(folder: Path, right: str, *changes: tuple[str, str]) -> tuple[str, netweave.Comparison]:
    """Compare a source with itself after changes, apply the fixes, and compare again.

    Returns:
        The source with the fixes in, and how the two compare.
    """
    wrong = right
    for old, new in changes:
        assert old in wrong
        wrong = wrong.replace(old, new)
    (folder / "right.py").write_text(right)
    (folder / "port.py").write_text(wrong)
    found = netweave.compare(read(folder / "right.py"), read(folder / "port.py"))
    assert not found.equal
    fixed = mend(found)
    assert not fixed.refused, fixed.refused
    ((file, text),) = fixed.after.items()
    Path(file).write_text(text)
    return text, netweave.compare(read(folder / "right.py"), read(folder / "port.py"))


def test_a_softmax_that_is_left_out_is_computed_of_what_is_returned(tmp_path):
    text, after = mended(tmp_path, RETURNS, ("torch.softmax(self.scores(x), dim=1)", "self.scores(x)"))
    assert after.equal, after.sentence
    assert text == RETURNS


BLOCKS = """
import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, inputs, width, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, stride=stride, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, stride=1)
        self.conv3 = nn.Conv2d(width, width, 1)
        self.short = nn.Conv2d(inputs, width, 1, stride=stride)

    def forward(self, x):
        y = torch.tanh(self.conv1(x))
        y = torch.tanh(self.conv2(y))
        return torch.tanh(self.conv3(y) + self.short(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Block(3, 8), Block(8, 16, 2), Block(16, 16), Block(16, 8, stride=2))

    def forward(self, x):
        return self.blocks(x)
"""


def test_a_step_that_blocks_have_in_another_layer_is_given_by_the_blocks_parameter(tmp_path):
    """ResNet's first and second version: the step of a block is that of its first or its second layer."""
    text, after = mended(
        tmp_path,
        BLOCKS,
        ("width, 1, stride=stride, bias=False)", "width, 1, bias=False)"),
        ("padding=1, stride=1)", "padding=1, stride=stride)"),
    )
    assert after.equal, after.sentence
    assert text == BLOCKS.replace("1, stride=stride, bias=False", "1, bias=False, stride=stride")


def test_a_rectifier_with_a_bound_is_replaced_in_all_layers_that_a_line_makes(tmp_path):
    right = RETURNS.replace(
        "nn.ReLU(),", "*[nn.Sequential(nn.ReLU(), nn.Conv2d(8, 8, 1)) for _ in range(2)],"
    )
    _, after = mended(
        tmp_path,
        right,
        ("(nn.ReLU(), ", "(nn.ReLU6(), "),
        ("nn.ReLU(inplace=True)", "nn.ReLU6(inplace=True)"),
    )
    assert after.equal, after.sentence
