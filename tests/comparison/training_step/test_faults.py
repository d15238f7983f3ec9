"""Faults that only a backward pass or an update shows, on nets in two spellings."""

import re

import pytest
import torch
from torch import nn

from netweave import compare_training, record_training
from tests.comparison.training_step.planted import FAULTS, UNSEEN, Fault, adam, compared, sgd

ALL = {**FAULTS, **UNSEEN}

OF_PORTS = {"variance divided by n"}
"""Faults that PyTorch's own layers cannot have."""


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (name, spelling)
        for name in ALL
        for spelling in ("same", "other")
        if spelling == "other" or name not in OF_PORTS
    ],
)
def test_the_first_finding_names_the_fault(name, spelling):
    comparison = compared(ALL[name], spelling, 1, torch.float64)
    assert not comparison.equal
    assert comparison.exit_status == 1
    assert re.search(ALL[name].words, comparison.findings[0].cause)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [sgd, adam, torch.optim.RMSprop, torch.optim.Adagrad])
@pytest.mark.parametrize(("kind", "spelling"), [("images", "other"), ("text", "other"), ("text", "same")])
def test_right_ports_learn_the_same(kind, spelling, make, dtype):
    comparison = compared(Fault("", kind, optimizer=make), spelling, 7, dtype)
    assert comparison.findings == ()
    assert comparison.equal
    assert comparison.num_updates == 3


class Detached(nn.Module):
    """Two layers, the first of which learns nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        hidden = hidden.detach()
        return self.second(hidden)


def test_the_line_that_cuts_a_gradient_is_named():
    torch.manual_seed(0)
    b = Detached()
    a = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    a[0].load_state_dict(b.first.state_dict())
    a[2].load_state_dict(b.second.state_dict())
    x = torch.randn(3, 4)
    comparison = compare_training(record_training(a, x), record_training(b, x))
    (finding,) = comparison.findings
    assert finding.cause == "no gradient reaches first.weight, first.bias in B: detach cuts it"
    line = Detached.forward.__code__.co_firstlineno + 2
    assert finding.place_b == f"{__file__}:{line}"
    assert finding.fix == "remove detach"
