"""Stored arrays that were saved from a wrapper of the net, or from a part of it."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.formats.pytorch.state import match_names

OWN = {"conv.weight": (2, 3), "conv.bias": (2,), "bn.num_batches_tracked": ()}


def arrays(*names: str) -> dict[str, np.ndarray]:
    return {name: np.zeros((2, 3) if name.endswith("weight") else (2,)) for name in names}


@pytest.mark.parametrize(
    ("stored", "note"),
    [
        (("conv.weight", "conv.bias"), ""),
        (("module.conv.weight", "module.conv.bias"), "the arrays under 'module.' are used"),
        (
            ("model.conv.weight", "model.conv.bias", "loss.weight"),
            "the arrays under 'model.' are used; 1 others (loss.weight, ...) are not",
        ),
        (("a.net.conv.weight", "a.net.conv.bias"), "the arrays under 'a.net.' are used"),
        (("weight", "bias"), "the arrays are those of the module's part 'conv.'"),
    ],
)
def test_a_prefix_that_makes_all_arrays_fit_is_left_out(stored, note):
    match = match_names(arrays(*stored), OWN)
    assert {name: match.arrays[name].shape for name in ("conv.weight", "conv.bias")} == {
        "conv.weight": (2, 3),
        "conv.bias": (2,),
    }
    assert match.note == note


def test_arrays_that_fit_with_no_prefix_stay_as_they_are():
    for names in (("x.conv.weight",), ("x.conv.bias", "y.conv.weight")):
        found = match_names(arrays(*names), OWN)
        assert (list(found.arrays), found.note) == (list(names), "")
