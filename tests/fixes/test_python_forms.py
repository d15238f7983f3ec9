"""Differences in forms in which people write nets: found, mended in the source, and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

import netweave
from netweave.files.sandbox import has_guard
from netweave.fixes import mend

pytest.importorskip("torch")

pytestmark = [pytest.mark.multi, pytest.mark.slow]

SHAPES = {"x": (1, 3, 24, 24)}

RETURNS = """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(inplace=True)
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


def test_a_rectifier_with_a_bound_is_replaced_in_all_layers_that_a_line_makes(tmp_path):
    right = RETURNS.replace("nn.ReLU(),", "*[nn.ReLU() for _ in range(2)],")
    _, after = mended(
        tmp_path,
        right,
        ("[nn.ReLU() ", "[nn.ReLU6() "),
        ("nn.ReLU(inplace=True)", "nn.ReLU6(inplace=True)"),
    )
    assert after.equal, after.sentence
