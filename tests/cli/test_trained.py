"""``netweave test``, ``extract`` and ``time``, on a classifier with its records in an HDF5 file."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("h5py")

import h5py

from netweave import cli
from tests.training.small import NUM_RECORDS, SOLVER, records, write


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with net, solver, records and weights that were trained by the command."""
    folder = tmp_path_factory.mktemp("trained")
    write(folder, SOLVER + "test_iter: 4 test_interval: 20\n")
    x, labels = records()
    with h5py.File(folder / "records.h5", "w") as file:
        file["data"], file["label"] = x.astype(np.float32), labels.astype(np.float32)
    (folder / "list.txt").write_text("records.h5\n")
    with contextlib.chdir(folder), pytest.raises(SystemExit) as exited:
        cli.main(("train", "solver.prototxt"))
    assert exited.value.code == 0
    return folder


@pytest.fixture
def trained(made, tmp_path, monkeypatch):
    """The working folder: a copy of what was trained."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)


WEIGHTS = "kept/linear_iter_20.caffemodel"


def test_a_test_of_a_net_and_of_its_solver_are_one(trained, netweave):
    whole = netweave("test", "net.prototxt", WEIGHTS, "--iterations", "4", "--json", "-")
    assert whole.status == 0
    found = json.loads(whole.out)["test"]
    called = netweave("test", "--model", "solver.prototxt", "--weights", WEIGHTS)
    assert called.out.splitlines() == [
        f"loss = {found['loss'][0]:.6g} (* 1.5 = {found['loss'][0] * 1.5:.6g} loss)",
        f"accuracy = {found['accuracy'][0]:.6g}",
    ]
    x, labels = records()
    rows = np.arange(20) % NUM_RECORDS
    weight, bias = _weights()
    hits = (x[rows] @ weight.T + bias).argmax(1) == labels[rows]
    assert found["accuracy"] == [pytest.approx(hits.mean())]


@pytest.mark.parametrize("suffix", [".npz", ".h5", ".txt", ".npy", ".csv"])
def test_features_in_every_form(trained, netweave, suffix):
    layers = "ip,label" if suffix in {".npz", ".h5"} else "ip"
    called = netweave("extract", "net.prototxt", WEIGHTS, layers, f"found{suffix}")
    assert called.status == 0, called.err
    assert called.out.startswith(f"found{suffix}: ip {NUM_RECORDS}x4")
    found = _read(f"found{suffix}")
    x, labels = records()
    weight, bias = _weights()
    np.testing.assert_allclose(found["ip"], x @ weight.T + bias, rtol=1e-4, atol=1e-5)
    if "label" in found:
        np.testing.assert_array_equal(found["label"], labels)


def _read(name):
    if name.endswith(".npz"):
        return dict(np.load(name))
    if name.endswith(".h5"):
        with h5py.File(name) as file:
            return {key: file[key][:] for key in file}
    if name.endswith(".npy"):
        return {"ip": np.load(name)}
    return {"ip": np.loadtxt(name, delimiter="," if name.endswith(".csv") else None)}


def _weights():
    from netweave import api

    net = api.load("net.prototxt", WEIGHTS, input_shapes={"data": (1, 6)})
    values = net.model.graph.initializers.values()
    arrays = {value.const_value.shape.rank(): value.const_value.numpy() for value in values}
    weight = arrays[2]
    return (weight if weight.shape == (4, 6) else weight.T).astype(float), arrays[1].astype(float)


def test_times_of_layers(trained, netweave):
    called = netweave("time", "solver.prototxt", "--iterations", "2", "--json", "times.json")
    assert called.status == 0, called.err
    assert "whole net at once: forward" in called.out
    found = json.loads(Path("times.json").read_text())
    assert [row["name"] for row in found["layers"]] == ["ip", "loss"]
    assert found["inputs"]["data"] == [5, 6]
    shape = ("--input-shape", "data=2x6", "--forward")
    called = netweave("time", "--model", "net.prototxt", *shape, "--iterations", "1")
    assert called.status == 0, called.err
    assert "accuracy" in called.out
    assert "backward" not in called.out


def test_the_time_of_the_whole_net_as_it_is_prepared(trained, netweave):
    shape = ("--input-shape", "data=2x6")
    settings = ("--for", "inference", "--threads", "1", "--iterations", "3")
    called = netweave("time", "net.prototxt", *shape, *settings, "--json", "times.json")
    assert called.status == 0, called.err
    found = json.loads(Path("times.json").read_text())
    trials = {row["backend"]: row["failure"] for row in found["trials"]}
    assert found["backend"] in trials
    assert len(trials) > 1
    assert not trials[found["backend"]]
    assert (found["precision"], found["threads"], len(found["runs_s"])) == ("f32", 1, 3)
    assert found["inputs"]["data"] == [2, 6]
    assert f"{found['backend']} in f32 with 1 threads: median" in called.out
    assert "chosen" in called.out
    called = netweave("time", "net.prototxt", *shape, *settings, "--backend", "onnxruntime")
    assert "onnxruntime in f32" in called.out
    assert "chosen" not in called.out
    called = netweave("time", "net.prototxt", *shape, *settings, "--gpu", "0")
    assert (called.status, "leave out --gpu" in called.err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test", "net.prototxt"], "give one file of weights: netweave test NET WEIGHTS"),
        (["test", "--weights", WEIGHTS], "give one net: netweave test NET WEIGHTS"),
        (["test", "net.prototxt", "no.caffemodel"], "no.caffemodel: there is no such file"),
        (["test", "net.prototxt", WEIGHTS, "--views"], "ten crops need a crop size smaller than the images"),
        (
            ["test", "net.prototxt", WEIGHTS, "--gpu", "all"],
            "--gpu all: several devices are not supported",
        ),
        (
            ["extract", "net.prototxt", WEIGHTS, "fc7", "x.npz"],
            "there is no layer 'fc7'; expected one of data, ip",
        ),
        (["extract", "net.prototxt", WEIGHTS, "ip", "x.png"], "x.png: unknown suffix, expected .npz"),
        (
            ["extract", "net.prototxt", WEIGHTS, "ip,label", "x.txt"],
            "an .txt holds one array, but there are 2",
        ),
        (["time", "none.prototxt"], "none.prototxt: there is no such file"),
    ],
)
def test_what_is_refused(trained, netweave, arguments, message):
    called = netweave(*arguments)
    assert (called.status, called.out) == (2, "")
    assert message in called.err
