"""Checkpoints and states of optimizers: MXNet's are read, and MXNet reads those written here."""

from __future__ import annotations

import os
import pickle  # noqa: TID251  -- to read independently what is written, and to write what is hostile
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import ReadError, UnsupportedError, UsageError, WriteError
from netweave.formats.mxnet.ndarray import encode_record
from netweave.formats.mxnet.states import decode_states, encode_states
from tests.oracles import mxnet_checkpoints as cases

ROOT = Path(__file__).parents[2]
ORACLES = os.environ.get("NETWEAVE_ORACLES")

NOT_STORED = {"nadam", "gluon_nadam"}
"""Optimizers of which MXNet does not find all in a file: the product of Nadam's betas is in no state."""


def assert_alike(found, expected, *, but=()):
    """Compare arrays as loaded exactly, and after updates to 1e-4 of how far they moved."""
    assert set(found) == set(expected)
    for key, array in expected.items():
        name, when, _ = key.split(":")
        if when == "loaded":
            np.testing.assert_array_equal(found[key], array, err_msg=key)
        elif name not in but:
            moved = np.abs(array - expected[key.replace("updated", "loaded")]).max()
            assert np.abs(found[key] - array).max() <= 1e-4 * moved, key


@pytest.mark.parametrize("name", cases.NAMES)
def test_a_training_goes_on_from_mxnets_checkpoint(name):
    """A net, its arrays and the states of its optimizer, saved by MXNet, and where it got to from there."""
    with np.load(cases.GOLDEN / "resumed.npz") as arrays:
        expected = {key: array for key, array in arrays.items() if key.startswith(f"{name}:")}
    assert_alike(cases.resume_one(mx, cases.GOLDEN, name, 0), expected)


def run(package, python, *arguments):
    command = [python, "-m", "tests.oracles.mxnet_checkpoints", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(not ORACLES, reason="NETWEAVE_ORACLES names no environment with MXNet")
@pytest.mark.parametrize("writer", ["mxnet", "netweave.mxnet"])
def test_both_go_on_from_the_same_checkpoint(tmp_path, writer):
    """Each trains and saves; both load that, hold the same numbers, and get to the same from there."""
    pythons = {"mxnet": f"{ORACLES}/bin/python", "netweave.mxnet": sys.executable}
    run(writer, pythons[writer], "train", tmp_path, writer)
    found = {}
    for reader, python in pythons.items():
        # MXNet finds no counts of updates in a file, so that it is told of those made here
        counted = cases.STEPS if (writer, reader) == ("netweave.mxnet", "mxnet") else 0
        run(reader, python, "resume", tmp_path, tmp_path / f"{reader}.npz", reader, counted)
        with np.load(tmp_path / f"{reader}.npz") as arrays:
            found[reader] = dict(arrays)
    assert_alike(*found.values(), but=NOT_STORED if writer == "netweave.mxnet" else ())


# The files themselves.


@pytest.fixture
def fake(monkeypatch):
    """The class ``mxnet.ndarray.NDArray`` as far as Python's own pickle needs it."""

    class NDArray:
        def __init__(self, handle):
            self.handle = handle

        def __reduce__(self):
            return NDArray, (None,), {"handle": self.handle}

        def __setstate__(self, state):
            self.handle = state["handle"]

    NDArray.__module__, NDArray.__qualname__ = "mxnet.ndarray", "NDArray"
    module = types.ModuleType("mxnet.ndarray")
    module.NDArray = NDArray
    monkeypatch.setitem(sys.modules, "mxnet", types.ModuleType("mxnet"))
    monkeypatch.setitem(sys.modules, "mxnet.ndarray", module)
    return NDArray


VALUES = [
    0,
    -1,
    127,
    128,
    255,
    256,
    -129,
    2**40,
    -(2**40),
    2**62,
    0.1,
    -1e300,
    "",
    "fc_weight",
    "é",
    None,
    True,
]


def test_python_reads_what_is_written(fake):
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    written = {0: None, 1: array, 2: (array, None, (array,)), "own": dict(enumerate(VALUES))}
    found = pickle.loads(encode_states(written))
    assert list(found) == [0, 1, 2, "own"]
    assert found["own"] == written["own"]
    record = encode_record("", array)
    assert found[1].handle == bytearray(record)  # MXNet needs one, which it can write to
    assert isinstance(found[1].handle, bytearray)
    assert found[2][1] is None
    assert found[2][2][0].handle == record


@pytest.mark.parametrize("protocol", range(6))
def test_pickles_of_all_protocols_are_read(tmp_path, fake, protocol):
    array = np.linspace(0, 1, 5)
    one = fake(bytearray(encode_record("", array)))
    file = tmp_path / "net.states"
    file.write_bytes(pickle.dumps({0: (one, None), "fc": one, 2: None}, protocol))
    states, attributes = decode_states(file.read_bytes(), str(file))
    np.testing.assert_array_equal(states[0][0], array)
    np.testing.assert_array_equal(states["fc"], array)
    assert (states[0][1], states[2], attributes) == (None, None, {})


def saved(tmp_path, optimizer="adam"):
    module = cases.bound(mx, mx.mod.Module(cases.net(mx)), optimizer, 0)
    cases.updated(mx, module, 0).save_optimizer_states(str(tmp_path / "net.states"))
    return tmp_path / "net.states"


def loading(file, optimizer="adam"):
    module = mx.mod.Module(cases.net(mx))
    cases.bound(mx, module, optimizer, 0).load_optimizer_states(str(file))


def test_the_arrays_may_be_named(tmp_path):
    """A store that updates has the names of the arrays as its keys."""
    file = saved(tmp_path)
    states, _ = decode_states(file.read_bytes(), str(file))
    states.pop("netweave")
    names = [name for name in cases.net(mx).list_arguments() if name not in {"data", "softmax_label"}]
    (tmp_path / "named.states").write_bytes(encode_states({names[k]: one for k, one in states.items()}))
    loading(tmp_path / "named.states")


def test_states_of_another_optimizer_are_refused(tmp_path):
    expected = (
        r"array 'fc1_weight': the saved state is \(an array of 6x5, an array of 6x5\), the optimizer keeps "
    )
    with pytest.raises(UsageError, match=expected + "an array of 6x5; was it saved with the same net"):
        loading(saved(tmp_path), "sgd_momentum")


def test_states_of_another_net_are_refused(tmp_path):
    (tmp_path / "large.states").write_bytes(encode_states({0: np.zeros((9, 5), np.float32)}))
    with pytest.raises(UsageError, match=r"array 'fc1_weight': the saved state is .*9x5.*keeps .*6x5"):
        loading(tmp_path / "large.states", "sgd_momentum")
    (tmp_path / "few.states").write_bytes(encode_states({0: None}))
    with pytest.raises(UsageError, match=r"array 'bn_gamma': the file has no state of it; .*: it has 0"):
        loading(tmp_path / "few.states", "sgd")


def test_states_of_before_the_first_update_begin_anew(tmp_path):
    file = tmp_path / "net.states"
    cases.bound(mx, mx.mod.Module(cases.net(mx)), "adam", 0).save_optimizer_states(str(file))
    loading(file)


class Hostile:
    """Runs a command when Python unpickles it."""

    def __reduce__(self):
        return os.system, ("exit 1",)


def test_nothing_in_a_pickle_is_called(tmp_path, monkeypatch):
    file = tmp_path / "net.states"
    file.write_bytes(pickle.dumps({0: Hostile()}))
    monkeypatch.setattr(os, "system", lambda _: pytest.fail("it was called"))
    with pytest.raises(UnsupportedError, match=r"holds a call of (posix|nt)\.system among the"):
        decode_states(file.read_bytes(), str(file))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: [1, 2], "holds a list, expected a dict from numbers or names of arrays to states"),
        (lambda fake: {0: fake("Ω")}, "an array has 'Ω' where its bytes should be"),
        (lambda fake: {0: fake(bytearray(b"123"))}, "ends in the header: 4 bytes expected, 3 left"),
    ],
)
def test_what_is_no_state_of_an_optimizer_is_refused(tmp_path, fake, make, message):
    file = tmp_path / "net.states"
    file.write_bytes(pickle.dumps(make(fake)))
    with pytest.raises(ReadError, match=message):
        decode_states(file.read_bytes(), str(file))


def test_every_cut_of_a_file_is_one_typed_error(tmp_path):
    content = saved(tmp_path, "sgd_momentum").read_bytes()
    cut = tmp_path / "cut.states"
    for end in range(0, len(content), 7):
        cut.write_bytes(content[:end])
        with pytest.raises(ReadError, match=r"cut\.states"):
            decode_states(cut.read_bytes(), str(cut))


def test_a_folder_that_is_missing_is_named(tmp_path):
    module = cases.bound(mx, mx.mod.Module(cases.net(mx)), "sgd", 0)
    with pytest.raises(WriteError, match=r"missing.net.states: cannot be written: No such file"):
        module.save_optimizer_states(str(tmp_path / "missing" / "net.states"))


def test_a_trainer_numbers_parameters_by_their_names():
    """MXNet sorts them: a bias is before its weight, and arrays without gradients count."""
    block = mx.gluon.nn.HybridSequential(prefix="net_")
    with block.name_scope():
        block.add(mx.gluon.nn.BatchNorm(in_channels=5), mx.gluon.nn.Dense(3, in_units=5))
    block.initialize()
    trainer = mx.gluon.Trainer(block.collect_params(), "sgd")
    assert {number: one.name for number, one in trainer._params.items()} == {
        0: "net_batchnorm0_beta",
        1: "net_batchnorm0_gamma",
        4: "net_dense0_bias",
        5: "net_dense0_weight",
    }


@pytest.mark.parametrize(
    ("kind", "settings", "form"),
    [
        ("sgd", {}, None),
        ("sgd", {"momentum": 0.9}, (2, 3)),
        ("dcasgd", {}, [None, (2, 3)]),
        ("rmsprop", {}, [(2, 3)]),
        ("rmsprop", {"centered": True}, [(2, 3)] * 3),
        ("adagrad", {}, (2, 3)),
        ("groupadagrad", {}, (2, 1)),
        ("adam", {}, [(2, 3)] * 2),
        ("sgld", {}, None),
    ],
)
def test_a_state_has_the_form_that_it_has_in_mxnet(kind, settings, form):
    """``create_state`` of python/mxnet/optimizer/optimizer.py at 1.9.1."""
    state = mx.optimizer.create(kind, **settings).create_state(0, mx.nd.zeros((2, 3)))
    shapes = [one if one is None else one.shape for one in (state if isinstance(state, tuple) else [state])]
    assert shapes == (form if isinstance(form, list) else [form])
    assert isinstance(state, tuple) == isinstance(form, list)


def test_an_optimizer_of_ones_own_works_on_the_state():
    """As MXNet's example of sparse training does, which masks the momentum."""

    class Masked(mx.optimizer.SGD):
        def update(self, index, weight, grad, state):
            state[:] = state * mx.nd.array([1, 0])
            super().update(index, weight, grad, state)

    optimizer = Masked(learning_rate=0.1, momentum=0.5)
    weight, grad = mx.nd.ones((2,)), mx.nd.array([1, 2])
    state = optimizer.create_state(0, weight)
    for _ in range(2):
        optimizer.update(0, weight, grad, state)
    np.testing.assert_allclose(weight.asnumpy(), [1 - 0.1 - 0.15, 1 - 0.2 - 0.2], rtol=1e-6)
    mx.optimizer.SGD(learning_rate=1.0).update(0, weight, grad, None)
    np.testing.assert_allclose(weight.asnumpy(), [-0.25, -1.4], rtol=1e-6)
