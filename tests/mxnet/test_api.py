"""Programs for MXNet's API against what they found under MXNet 1.9.1 (``tests/oracles/mxnet_api.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from tests.oracles import mxnet_steps  # noqa: F401 - enters its programs
from tests.oracles.mxnet_api import PROGRAMS

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mxnet_api.npz")

STEPWISE = {name for name in PROGRAMS if name.startswith(("optimizer_", "schedule_"))}
"""Programs whose arrays may differ by rounding that grows with the steps, relative to their movement."""


UNSTEADY = ("bn_moving_mean", "bn_moving_var")
"""MXNet's own moving statistics differ from run to run of one program: its threads race for them."""


def expected(program):
    start = f"{program}/"
    return {key.removeprefix(start): GOLDEN[key] for key in GOLDEN.files if key.startswith(start)}


OWN = {"checkpoint", "in_64_bits"} | STEPWISE
"""Programs with tests of their own."""


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in OWN])
def test_a_program_finds_what_it_found_under_mxnet(name):
    found, wanted = PROGRAMS[name](mx), expected(name)
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        if key.endswith(UNSTEADY) or (name == "two_devices" and key.endswith("bn_gamma")):
            continue  # a fixed gamma: MXNet's store of several devices keeps the first values of it
        if array.dtype.kind == "U":
            assert list(np.ravel(found[key])) == list(np.ravel(array)), key
        else:
            assert np.shape(found[key]) == array.shape, key
            np.testing.assert_allclose(found[key], array, rtol=2e-5, atol=2e-6, err_msg=key)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STEPWISE))
def test_fifty_steps_end_where_mxnet_ends(name):
    """To 1e-4 of how far each array moved: the criterion of the issue."""
    found, wanted = PROGRAMS[name](mx), expected(name)
    assert found.keys() == wanted.keys()
    for key in [key for key in wanted if not key.startswith("moved:") and key not in UNSTEADY]:
        moved = np.abs(wanted[f"moved:{key}"]).max()
        np.testing.assert_allclose(found[key], wanted[key], rtol=0, atol=1e-4 * moved + 1e-7, err_msg=key)


def test_fifty_steps_in_64_bits_end_where_mxnet_ends():
    """What parts in 32 bits (hinges, shared weights, LARS) is rounding.

    To 1e-6 of how far each array moved, since MXNet keeps its settings, such as the rate, in 32 bits.
    """
    found, wanted = PROGRAMS["in_64_bits"](mx), expected("in_64_bits")
    assert found.keys() == wanted.keys()
    for key in [key for key in wanted if not key.startswith("moved:")]:
        moved = np.abs(wanted[f"moved:{key}"]).max()
        assert moved > 1e-3
        np.testing.assert_allclose(found[key], wanted[key], rtol=0, atol=1e-6 * moved, err_msg=key)


def test_a_checkpoint_has_the_bytes_that_mxnet_writes(tmp_path):
    found, wanted = PROGRAMS["checkpoint"](mx), expected("checkpoint")
    for key in ("params", "records"):
        assert bytes(found[key]) == bytes(wanted[key]), key


def test_a_checkpoint_of_mxnet_is_read(tmp_path):
    wanted = expected("checkpoint")
    (tmp_path / "net-symbol.json").write_bytes(wanted["symbol"])
    (tmp_path / "net-0003.params").write_bytes(wanted["params"])
    symbol, args, aux = mx.model.load_checkpoint(str(tmp_path / "net"), 3)
    module = mx.mod.Module(symbol)
    module.bind([("data", (8, 2, 6, 6))], for_training=False)
    module.set_params(args, aux)
    assert module.predict(mx.nd.zeros((8, 2, 6, 6))).shape == (8, 3)
