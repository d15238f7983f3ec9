"""A batch in shards: the same bits on any number of ranks and threads, and after a change of both."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from examples.yolo import demo as yolo
from examples.yolo import make_data
from netweave.training.checkpoint_file import read_checkpoint
from tests.training.parallel.ranks import Case, alone, run

pytestmark = [pytest.mark.multi, pytest.mark.slow]

SHARDS, STEPS = 8, 20


def case(net, name="", **settings):
    options = {"steps": STEPS, "stages": 4, "dtype": "float32", "sync_batch_norm": False, "same_bits": SHARDS}
    return Case(name or net, net, **{**options, **settings})


def fingerprint(arrays):
    """Return one hash of all arrays, and of the losses of all updates."""
    content = hashlib.sha256()
    for key, array in sorted(arrays.items()):
        content.update(f"{key} {array.dtype} {array.shape}".encode() + array.tobytes())
    return content.hexdigest()[:16]


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    found = run(tmp_path_factory.mktemp("one"), [case("lenet"), case("residual")], 1)
    return {name: fingerprint(arrays) for name, arrays in found.items()}


@pytest.mark.parametrize(
    ("ranks", "threads", "stages"), [(1, 2, 4), (2, 1, 16), (2, 2, 4), (4, 1, 4), (8, 1, 1)]
)
def test_all_numbers_of_ranks_threads_and_stages_end_with_one_hash(
    tmp_path, one_rank, ranks, threads, stages
):
    cases = [case(net, stages=stages) for net in ("lenet", "residual")]
    found = run(tmp_path, cases, ranks, threads)
    assert {name: fingerprint(arrays) for name, arrays in found.items()} == one_rank


@pytest.mark.parametrize(
    "sizes",
    [((4, 1), (1, 2), (2, 1)), pytest.param(((8, 1), (2, 2), (4, 1)), marks=pytest.mark.exhaustive)],
)
def test_a_run_goes_on_with_other_ranks(tmp_path, one_rank, sizes):
    """Three numbers of ranks and threads in turn, each from the checkpoint of those before."""
    checkpoints = ["kept_iter_7.checkpoint", "kept_iter_13.checkpoint"]
    parts = [
        case("residual", "first", steps=7, snapshot=7, folder="resized"),
        case("residual", "second", steps=13, snapshot=13, resume=checkpoints[0], folder="resized"),
        case("residual", "third", resume=checkpoints[1], folder="resized"),
    ]
    losses = []
    for (ranks, threads), part in zip(sizes, parts, strict=True):
        arrays = run(tmp_path, [part], ranks, threads)[part.name]
        losses.append(arrays.pop("losses"))
    assert fingerprint({**arrays, "losses": np.concatenate(losses)}) == one_rank["residual"]


DETECTOR_STARTS = [
    [("cpu", 1), ("cpu:2", 2), ("cpu:8", 1)],
    pytest.param(
        [("cpu", 1), ("cpu", 2), ("cpu:2", 1), ("cpu:4", 1), ("cpu:4", 2)], marks=pytest.mark.exhaustive
    ),
]
"""Devices of the command, and the threads of each."""


@pytest.mark.parametrize("starts", DETECTOR_STARTS)
def test_a_detector_ends_with_one_hash(tmp_path, starts):
    """YOLO's loss, distorted images and all, on ranks of the command with one and two threads each."""
    make_data.write(tmp_path / "shapes", num_train=32, num_test=8)
    settings = {"burn_in": "2", "max_batches": "6", "steps": "3,4"}
    net = yolo.with_solver(yolo.NET, tmp_path / "net.cfg", settings)
    arguments = [str(net), "--data", "shapes/shapes.data", "--seed", "1"]
    arguments += ["--same-bits", str(SHARDS), "--no-sync-batch-norm"]
    ends = set()
    for devices, threads in starts:
        command = [sys.executable, "-m", "netweave", "train", *arguments, "--devices", devices]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        subprocess.run(command, cwd=tmp_path, env=environment, check=True, timeout=240, capture_output=True)
        (path,) = (tmp_path / "shapes/backup").glob("*_iter_6.checkpoint")
        ends.add(fingerprint(read_checkpoint(path).arrays))
        path.unlink()
    assert len(ends) == 1


def test_shards_are_as_good_as_the_whole_batch(tmp_path):
    """In float64, where rounding is small; without batch statistics, which differ from shard to shard."""
    found = run(tmp_path, [case("lenet", dtype="float64")], 2)["lenet"]
    whole = run(tmp_path / "whole", [case("lenet", dtype="float64", same_bits=None)], 1)["lenet"]
    assert found.keys() == whole.keys()
    assert max(np.abs(found[key] - whole[key]).max() for key in whole) < 1e-12


def test_the_last_loss_is_that_of_the_whole_next_batch(tmp_path):
    """Caffe's last line is a forward pass of the batch after the last update, whoever computes it."""
    display = {"dtype": "float64", "solver": "display: 2", "steps": 4}
    cases = [
        case("mlp", "shards", **{**display, "same_bits": 2}),
        case("mlp", "parts", **{**display, "same_bits": None}),
    ]
    shown = [found["shown"] for ranks in (1, 2) for found in run(tmp_path, cases, ranks).values()]
    assert np.ptp(shown, axis=0).max() < 1e-12
    next_loss = alone(tmp_path / "alone", Case("longer", steps=5))["losses"][4]
    assert abs(next_loss - shown[0][-1]) < 1e-12
