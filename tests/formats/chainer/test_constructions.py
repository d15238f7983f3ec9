"""Models whose class wants arguments, which their training script gives."""

from __future__ import annotations

import pytest

import netweave
from netweave.errors import UsageError
from netweave.files.construction_lines import classes_with_arguments, find_construction

NET = """import chainer
import chainer.functions as F
import chainer.links as L


class MLP(chainer.Chain):
    def __init__(self, n_units, n_out):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(6, n_units)
            self.l2 = L.Linear(n_units, n_out)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))
"""
SCRIPT = """import argparse
import chainer.links as L
from net import MLP

CLASSES = 3

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--unit", "-u", type=int, default=5)
    args = parser.parse_args()
    model = L.Classifier(MLP(args.unit, n_out=CLASSES))
"""

CALLS = {
    "net = MLP(7, 2)": "7, 2",
    "net = nets.MLP(n_out=2, n_units=-7)": "n_out=2, n_units=-7",
    "N = 4\nnet = MLP(N, [1, 2])": "4, [1, 2]",
    "p.add_argument('--n-unit', default=9)\nMLP(opts.n_unit, 2)": "9, 2",
    "p.add_argument('--unit', type=int)\nMLP(args.unit, 2)": None,
    "net = MLP(len(words), 2)": None,
    "net = MLP(*sizes)": None,
    "net = Other(7, 2)": None,
    "no python": None,
}


@pytest.mark.parametrize("text", CALLS)
def test_a_call_is_taken_where_all_its_arguments_are_known(text):
    found = find_construction(text, ["MLP"])
    assert (found and found.arguments) == CALLS[text]


def test_classes_that_must_be_given_arguments():
    text = NET + "\nclass Whole(MLP):\n    def __init__(self, n=3): pass\n\nclass Plain(MLP): pass\n"
    assert classes_with_arguments(text) == {"MLP": True, "Whole": False, "Plain": False}


@pytest.mark.slow
def test_a_model_is_read_as_the_script_beside_it_constructs_it(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "train.py").write_text(SCRIPT)
    net = netweave.load(tmp_path / "net.py", trust=True)
    assert {key: one.shape for key, one in net.parameters.items() if key.endswith("W")} == {
        "l1/W": (5, 6),
        "l2/W": (3, 5),
    }
    assert "nobody said the arguments of 'MLP': MLP(5, n_out=3), as train.py:11 has it" in net.notes
    given = netweave.load(f"{tmp_path / 'net.py'}:MLP(4, 2)", trust=True)
    assert given.parameters["l2/W"].shape == (2, 4)


@pytest.mark.slow
def test_without_a_script_the_arguments_are_asked_for(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    with pytest.raises(UsageError, match="MLP"):
        netweave.load(tmp_path / "net.py", trust=True)
