"""What is wrong is said in one message, before the first step where it can be known, and nothing is written.

A wrong file, a missing data base and damaged checkpoints are in ``tests/cli/test_train.py``,
``tests/formats/caffe/test_solver.py`` and ``test_checkpoint.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import h5py

from netweave import api
from netweave.errors import NetweaveError
from tests.training.small import NET, NUM_FEATURES, SOLVER, write


def files(folder, count=23, *, features=NUM_FEATURES, classes=4, solver=SOLVER, net=NET):
    """Write solver, net and records; return the solver."""
    generator = np.random.default_rng(0)
    with h5py.File(folder / "records.h5", "w") as file:
        file["data"] = generator.normal(size=(count, features)).astype(np.float32)
        file["label"] = generator.integers(classes, size=count).astype(np.float32)
    (folder / "list.txt").write_text(f"{folder}/records.h5\n")
    return write(folder, solver, net)


def spoil(folder):
    with h5py.File(folder / "records.h5", "a") as file:
        file["data"][12, 3] = np.nan


HIDDEN = NET.replace(
    'layer { name: "ip" type: "InnerProduct" bottom: "data"',
    'layer { name: "wide" type: "InnerProduct" bottom: "data" top: "wide"\n'
    '  inner_product_param { num_output: 8 weight_filler { type: "constant" value: 1e30 } } }\n'
    'layer { name: "square" type: "Power" bottom: "wide" top: "square" power_param { power: 2 } }\n'
    'layer { name: "ip" type: "InnerProduct" bottom: "square"',
)

CASES = {
    "fewer records than a batch": (
        {"count": 3},
        r"net.prototxt:2: layer 'data' \(HDF5Data\): there are 3 records in .*list.txt, fewer than the 5 "
        "of a batch; set batch_size to 3 or less",
    ),
    "labels that there are not": (
        {"net": NET.replace('top: "label"', 'top: "class"').replace('bottom: "label"', 'bottom: "class"')},
        r"net.prototxt:2: layer 'data' \(HDF5Data\): .*records.h5: has no dataset class, only data, label",
    ),
    "predictions of another size than the labels": (
        {
            "net": NET.replace(
                'bottom: "ip" bottom: "label" top: "loss"', 'bottom: "label" bottom: "ip" top: "loss"'
            )
        },
        r"net.prototxt:\d+: layer 'loss' \(SoftmaxWithLoss\)",
    ),
    "an unknown filler": (
        {"net": NET.replace('"gaussian"', '"gauss"')},
        "gauss",
    ),
    "a policy that is not known": (
        {"solver": SOLVER.replace('"inv"', '"warm"')},
        r"solver.prototxt:1: unknown lr_policy 'warm', expected fixed, step",
    ),
    "a type of solver that is not known": (
        {"solver": SOLVER + 'type: "Lamb"\n'},
        r"solver.prototxt:4: unknown solver type 'Lamb', expected SGD, Nesterov",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_known_before_the_first_step(tmp_path, case):
    changes, message = CASES[case]
    told = []
    with pytest.raises(NetweaveError, match=message):
        api.train(files(tmp_path, **changes), watch=told.append)
    assert not told
    assert not (tmp_path / "kept").exists()


def test_weights_of_another_size_name_both(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    api.train(files(tmp_path / "a"))
    with pytest.raises(
        NetweaveError, match=r"linear_iter_20.caffemodel: does not fit linear: ip/0 is 4x7 in the"
    ):
        api.train(files(tmp_path / "b", features=7), weights=[tmp_path / "a/kept/linear_iter_20.caffemodel"])


def test_nan_in_the_data_is_traced_to_the_input(tmp_path):
    solver = files(tmp_path)
    spoil(tmp_path)
    with pytest.raises(
        NetweaveError, match=r"the loss is nan in iteration 1: the input 'data' holds numbers that"
    ):
        api.train(solver)
    assert not list(tmp_path.rglob("*.caffemodel"))


def test_an_overflow_is_traced_to_its_layer(tmp_path):
    with pytest.raises(
        NetweaveError,
        match=r"in iteration 0: .*net.prototxt:\d+: layer 'square' \(Power\) is the first whose",
    ):
        api.train(files(tmp_path, net=HIDDEN))


def test_a_run_that_fails_leaves_what_earlier_ones_wrote(tmp_path):
    api.train(files(tmp_path))
    before = {path: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    (tmp_path / "records.h5").unlink()
    solver = files(tmp_path)
    spoil(tmp_path)
    with pytest.raises(NetweaveError, match="the loss is nan"):
        api.train(solver)
    assert {path: path.read_bytes() for path in (tmp_path / "kept").iterdir()} == before


def test_files_of_an_hdf5_list_are_found_beside_the_solver(tmp_path, monkeypatch):
    """A solver can be started from anywhere; the names in its list are like those in its nets."""
    solver = files(tmp_path)
    (tmp_path / "list.txt").write_text("records.h5\n")
    monkeypatch.chdir(tmp_path.parent)
    api.train(solver)
    assert (tmp_path / "kept" / "linear_iter_20.caffemodel").exists()


def test_phases_whose_data_have_other_sizes(tmp_path):
    """Caffe: Cannot share param 0 weights from layer 'ip'; shape mismatch."""
    data = 'layer {{ name: "d" type: "DummyData" top: "data" top: "label" include {{ phase: {} }}\n'
    data += "  dummy_data_param {{ shape {{ dim: 8 dim: {} }} shape {{ dim: 8 }} }} }}\n"
    rest = NET[NET.index('layer { name: "ip"') :]
    settings = SOLVER + "test_iter: 1 test_interval: 2"
    solver = files(tmp_path, solver=settings, net=data.format("TRAIN", 4) + data.format("TEST", 5) + rest)
    message = r"share 'ip/0', which is \(\d+, 4\) for 'train' and \(\d+, 5\) for 'test'; give their data"
    with pytest.raises(NetweaveError, match=message):
        api.train(solver)
