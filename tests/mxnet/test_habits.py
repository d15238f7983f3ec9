"""What other people's scripts do, against MXNet 1.9.1 (``tests/oracles/mxnet_habits.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from tests.oracles import mxnet_habits

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mxnet_habits.npz")


@pytest.mark.parametrize("program", mxnet_habits.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_finds_what_it_finds_under_mxnet(program):
    found = program(mx)
    prefix = f"{program.__name__}/"
    assert {prefix + key for key in found} == {key for key in GOLDEN.files if key.startswith(prefix)}
    for key, array in found.items():
        wanted = GOLDEN[prefix + key]
        if wanted.dtype.kind == "U":
            assert list(array) == list(wanted), key
        elif wanted.dtype.kind in "iu":
            np.testing.assert_array_equal(array, wanted, err_msg=key)
        else:
            scale = max(1e-3, float(np.abs(wanted).max()))
            np.testing.assert_allclose(array, wanted, rtol=0, atol=2e-6 * scale, err_msg=key)
