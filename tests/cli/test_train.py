"""``netweave train``: a small LeNet on records in an LMDB, from the command line to a Caffe model."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netweave import api
from netweave.errors import UsageError
from netweave.files import Source
from netweave.formats.caffe.reader import read
from netweave.installation import install_command
from netweave.training.data.item import Item
from netweave.training.data.writers import make_writer

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")

SOURCES = Path(api.__file__).parents[2]

NET = """name: "tiny_lenet"
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TRAIN }
  transform_param { scale: 0.00390625 } data_param { source: "train_lmdb" batch_size: 20 backend: LMDB } }
layer { name: "mnist" type: "Data" top: "data" top: "label" include { phase: TEST }
  transform_param { scale: 0.00390625 } data_param { source: "test_lmdb" batch_size: 20 backend: LMDB } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 6 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "pool1"
  pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "ip1" type: "InnerProduct" bottom: "pool1" top: "ip1" param { lr_mult: 1 } param { lr_mult: 2 }
  inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
  inner_product_param { num_output: 4 weight_filler { type: "xavier" } } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
  include { phase: TEST } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
"""
SOLVER = """net: "net.prototxt" test_iter: 4 test_interval: 50 base_lr: 0.05 momentum: 0.9
weight_decay: 0.0005
lr_policy: "inv" gamma: 0.0001 power: 0.75 display: 25 max_iter: 100 snapshot: 50
snapshot_prefix: "out/lenet" solver_mode: GPU random_seed: 1
"""


def image(label: int, generator: np.random.Generator) -> np.ndarray:
    """Draw a bright bar on a noisy ground; its direction and side are the class."""
    pixels = generator.integers(0, 60, (12, 12), dtype=np.uint8)
    at = int(generator.integers(1, 4)) + 6 * (label % 2)
    bar = (slice(at, at + 2), slice(2, 10))
    pixels[bar if label < 2 else bar[::-1]] += 120
    return pixels[:, :, None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    pytest.importorskip("lmdb")
    place = tmp_path_factory.mktemp("lenet")
    for name, count, seed in (("train_lmdb", 200, 0), ("test_lmdb", 80, 1)):
        generator = np.random.default_rng(seed)
        with make_writer("lmdb", place / name) as writer:
            for _ in range(count):
                label = int(generator.integers(4))
                writer.write(Item(labels=np.array([label], np.float32), pixels=image(label, generator)))
    (place / "net.prototxt").write_text(NET)
    (place / "solver.prototxt").write_text(SOLVER)
    return place


@needs_torch
def test_a_net_learns_and_what_it_learnt_can_be_read(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    called = netweave("train", "solver.prototxt", "--trace", "trace.json")
    assert called.status == 0
    losses = [
        float(text) for text in re.findall(r"^Iteration \d+, loss = (\S+?),? ", called.out, re.MULTILINE)
    ]
    assert called.out.count("\n    loss = ") == 5 + 3
    accuracies = [float(text) for text in re.findall(r"accuracy = (\S+)", called.out)]
    assert len(losses) == 5
    assert losses[-1] < 0.2 * losses[0]
    assert len(accuracies) == 3
    assert accuracies[0] < 0.6
    assert accuracies[-1] > 0.95
    assert called.out.splitlines()[-1] == f"    accuracy = {accuracies[-1]:.6g}"
    assert "images/s" in called.out
    assert "busy: compute" in called.err
    names = {row["cat"] for row in json.loads((folder / "trace.json").read_text()) if "cat" in row}
    assert names == {"compute", "input", "output"}
    graph = read(Source(folder / "net.prototxt", weights=folder / "out/lenet_iter_100.caffemodel",
                        input_shapes={"data": (20, 1, 12, 12)}))  # fmt: skip
    assert graph.loaded
    alone = ("out/lenet_iter_100.caffemodel", "--phase", "TRAIN", "--input-shape", "data=1x1x12x12")
    assert "tiny_lenet" in netweave("inspect", *alone).out


@needs_torch
def test_a_run_goes_on_as_the_caffe_command_spells_it(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    weights = folder / "out/lenet_iter_100.caffemodel"
    if not weights.exists():
        netweave("train", "solver.prototxt")
    whole = weights.read_bytes()
    weights.unlink()
    state = "out/lenet_iter_50.solverstate"
    called = netweave("train", "-solver", "solver.prototxt", f"-snapshot={state}")  # gflags take one dash
    assert called.status == 0
    assert called.out.startswith("Iteration 50, testing (test)\n")
    assert weights.read_bytes() == whole


@needs_torch
@pytest.mark.slow
def test_values_are_watched(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    called = netweave("train", "solver.prototxt", "--watch", "conv1", "--watch", "conv9*")
    assert called.status == 2
    assert "cannot watch 'conv9*': the net has no such value; there are 'conv1'" in called.err
    called = netweave("train", "solver.prototxt", "--watch", "conv1", "--watch", "ip2/*")
    line = re.compile(r"^Iteration (\d+), (conv1|ip2/\d): (\S+) mean \S+ std \S+ min", re.MULTILINE)
    lines = line.findall(called.out)
    names = ("conv1", "ip2/0", "ip2/1")
    assert [(int(step), name) for step, name, _ in lines] == [
        (step, name) for step in (0, 25, 50, 75) for name in names
    ]
    assert [shape for step, _, shape in lines if step == "0"] == ["20x6x10x10", "4x16", "4"]


@needs_torch
@pytest.mark.slow
def test_ctrl_c_writes_a_checkpoint_and_the_run_goes_on(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "long.prototxt").write_text(
        SOLVER.replace("max_iter: 100", "max_iter: 1000000").replace("out/lenet", "long/lenet")
    )
    command = [sys.executable, "-m", "netweave", "train", "long.prototxt"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(SOURCES)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stdout:
            if line.startswith("Iteration 25,"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(60) == 130
    at = int(re.search(r"Iteration (\d+), stopped; --resume goes on from here", rest)[1])
    assert (folder / f"long/lenet_iter_{at}.checkpoint").exists()
    (folder / "long.prototxt").write_text(
        SOLVER.replace("max_iter: 100", f"max_iter: {at + 3}").replace("out/lenet", "long/lenet")
    )
    called = netweave("train", "long.prototxt", "--resume")
    assert called.status == 0
    assert f"long/lenet_iter_{at + 3}.checkpoint" in called.out


@needs_torch
def test_records_are_taken_from_where_the_command_says(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "moved.prototxt").write_text(NET.replace('source: "train_lmdb"', 'source: "gone_lmdb"'))
    solver = SOLVER.replace('"net.prototxt"', '"moved.prototxt"').replace("out/", "moved/")
    (folder / "moved_solver.prototxt").write_text(solver.replace("max_iter: 100", "max_iter: 2"))
    refused = netweave("train", "moved_solver.prototxt")
    assert refused.status == 2
    assert "gone_lmdb: there is no such" in refused.err
    assert netweave("train", "moved_solver.prototxt", "--data", "train=train_lmdb").status == 0
    wrong = netweave("train", "moved_solver.prototxt", "--data", "train")
    assert wrong.status == 2
    assert "data is given for 'train' without a path; say train=PATH" in wrong.err


@needs_torch
def test_a_job_that_is_refused_overwrites_no_trace(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "old.json").write_text("[]")
    called = netweave("train", "solver.prototxt", "--weights", "none.caffemodel", "--trace", "old.json")
    assert called.status == 2
    assert (folder / "old.json").read_text() == "[]"


@needs_torch
@pytest.mark.parametrize("setting", ["snapshot: 1", "snapshot_after_train: false"])
def test_an_update_that_overflows_ends_the_run_and_is_not_saved(folder, netweave, monkeypatch, setting):
    """The loss of the last iteration is still finite: only the parameters tell."""
    monkeypatch.chdir(folder)
    (folder / "steep.prototxt").write_text(NET.replace('top: "loss"', 'top: "loss" loss_weight: 1e20'))
    solver = SOLVER.replace("base_lr: 0.05", "base_lr: 1e30").replace("max_iter: 100", "max_iter: 1")
    solver = solver.replace("snapshot: 50", setting).replace("out/", "overflow/").replace("net.p", "steep.p")
    (folder / "overflow.prototxt").write_text(solver)
    called = netweave("train", "overflow.prototxt")
    assert called.status == 2
    assert "the update of iteration 0 left nan or inf in the parameter" in called.err
    assert not list((folder / "overflow").glob("*"))


@needs_torch
@pytest.mark.parametrize("shown", ["test_interval: 1", "display: 1"])
def test_a_run_that_ends_with_a_loss_of_nan_fails(folder, netweave, monkeypatch, shown):
    """The parameters are finite, and so large that the next loss is not."""
    monkeypatch.chdir(folder)
    solver = SOLVER.replace("base_lr: 0.05", "base_lr: 1e38").replace("max_iter: 100", "max_iter: 1")
    for setting in ("test_interval: 50", "display: 25"):
        solver = solver.replace(setting, shown if shown.split(":")[0] in setting else setting)
    (folder / "nan.prototxt").write_text(solver.replace("out/", "nan/"))
    called = netweave("train", "nan.prototxt")
    assert called.status == 2
    assert re.search(r"after iteration 1 the loss of '(train|test)' is (nan|inf)", called.err)


@needs_torch
def test_a_prefix_that_cannot_be_written_is_found_before_the_first_step(folder, netweave, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "a_file").write_text("")
    (folder / "unwritable.prototxt").write_text(SOLVER.replace("out/lenet", "a_file/lenet"))
    called = netweave("train", "unwritable.prototxt")
    assert called.status == 2
    assert "the folder 'a_file', for checkpoints 'a_file/lenet', cannot be written" in called.err
    assert "Iteration" not in called.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train"], "give one solver: netweave train SOLVER"),
        (["train", "a", "--solver", "b"], "give one solver"),
        (
            ["train", "a", "--resume", "--snapshot", "b"],
            "--resume, --requeued and --snapshot all select where to resume",
        ),
        (["train", "no.prototxt"], "no.prototxt: there is no such file"),
        (["train", "net.prototxt"], "net.prototxt: is a NetParameter, expected a solver"),
    ],
)
def test_calls_that_are_wrong(folder, netweave, monkeypatch, arguments, message):
    monkeypatch.chdir(folder)
    called = netweave(*arguments)
    assert called.status == 2
    assert message in called.err


def test_data_that_are_not_there_are_named_with_their_layer(folder, netweave, monkeypatch, tmp_path):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "solver.prototxt").write_text(SOLVER)
    monkeypatch.chdir(tmp_path)
    called = netweave("train", "solver.prototxt")
    assert (called.status, called.out) == (2, "")
    assert "net.prototxt:2: layer 'mnist' (Data): train_lmdb: there is no such file" in called.err


def test_without_torch_it_is_named(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "netweave.training.trainer", raising=False)
    job = api.load_job("solver.prototxt")
    with pytest.raises(UsageError, match=re.escape(install_command("torch"))):
        api.train(job)
