"""The first layer at which two nets part, found by halves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from netweave.comparison import bisect
from netweave.errors import UsageError
from tests.comparison.nets import Form, build, without

BASES = {
    "plain": Form(),
    "renamed": Form(prefix="p_"),
    "folded": Form(fold=True),
    "swapped": Form(swapped=True),
    "channels last": Form(channels_last=True),
}
FAULTS = {
    "relu1": {"slope": 0.4},
    "conv2": {"changed": {"conv2": ((3, 2, 1, 0), 0.5)}},
    "fc": {"changed": {"fc": ((3, 20), 2.0)}},
    "prob": {"softmax_axis": 0},
}


@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_equal_nets_do_not_part(base):
    found = bisect(build(), build(base))
    assert found.layer_a == ""
    assert found.num_runs <= np.ceil(np.log2(found.num_pairs + 1))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_the_layer_at_fault_is_found(base, fault):
    found = bisect(build(), build(dataclasses.replace(base, **FAULTS[fault])))
    assert found.layer_a == fault
    assert f"the nets diverge at {fault}" in found.sentence


@pytest.mark.parametrize("side", [0, 1])
def test_a_net_without_weights_is_refused(side):
    """Drawn values would part at the first layer of another name, or agree though nothing is known."""
    pair = [build(), build()]
    pair[side] = without(pair[side])
    with pytest.raises(UsageError, match=r"has no weights.*netweave compare"):
        bisect(*pair)


def test_a_probe_that_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="no 'data', an input of A"):
        bisect(build(), build(), probe={"image": np.zeros((1, 3, 11, 11), np.float32)})
    with pytest.raises(UsageError, match="cannot be run on inputs of the size data 1x3x40x40"):
        bisect(build(), build(), probe={"data": np.zeros((1, 3, 40, 40), np.float32)})
