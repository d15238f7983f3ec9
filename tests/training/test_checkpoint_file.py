"""Checkpoint files: whole or not there, and never believed when damaged."""

from __future__ import annotations

import hashlib
import os
import random

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.errors import ReadError, WriteError
from netweave.training.checkpoint_file import (
    Checkpoint,
    Origin,
    checkpoint_path,
    encode,
    kept,
    last_generation,
    latest,
    prune,
    read_checkpoint,
    read_origin,
    write_checkpoint,
)

CHECKPOINT = Checkpoint(
    {"iteration": 3, "losses": [0.1, 1e-300]},
    {"param:a/0": np.arange(6, dtype=np.float32).reshape(2, 3), "solver:h:a/0": np.float64([[1 / 3]])}
    | {"param:scale": np.array(2.5, np.float32)},
    Origin("5f1c", 7),
)


def test_round_trip(tmp_path):
    path = tmp_path / "new" / "a.checkpoint"
    write_checkpoint(path, CHECKPOINT)
    found = read_checkpoint(path)
    assert found.state == CHECKPOINT.state
    assert found.origin == read_origin(path) == CHECKPOINT.origin
    assert list(found.arrays) == list(CHECKPOINT.arrays)
    for name, array in CHECKPOINT.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        assert found.arrays[name].shape == array.shape
        np.testing.assert_array_equal(found.arrays[name], array)
    assert [file.name for file in path.parent.iterdir()] == ["a.checkpoint"]


def test_no_damage_goes_unseen(tmp_path):
    content = encode(CHECKPOINT)
    path = tmp_path / "a.checkpoint"
    draw = random.Random(0)
    for _ in range(500):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(ReadError, match=r"a\.checkpoint: is (damaged|not a Netweave checkpoint)"):
            read_checkpoint(path)
    for _ in range(100):
        path.write_bytes(content[: draw.randrange(len(content))])
        with pytest.raises(ReadError, match=r"is (damaged|not a Netweave checkpoint)"):
            read_checkpoint(path)


def test_the_latest_whole_one_is_taken_and_the_others_named(tmp_path):
    prefix = str(tmp_path / "net")
    for iteration in (9, 10, 100):
        write_checkpoint(checkpoint_path(prefix, iteration), Checkpoint({"iteration": iteration}, {}))
    (tmp_path / "net_iter_100.checkpoint").write_bytes(b"netweave checkpoint 2\nx")
    (tmp_path / "other_iter_200.checkpoint").write_bytes(b"")
    told = []
    path, found = latest(prefix, told.append)
    assert (path.name, found.state) == ("net_iter_10.checkpoint", {"iteration": 10})
    assert len(told) == 1
    assert "net_iter_100.checkpoint: is damaged" in told[0]
    for iteration in (9, 10):
        checkpoint_path(prefix, iteration).unlink()
    with pytest.raises(ReadError, match="is damaged"):
        latest(prefix)
    assert latest(str(tmp_path / "nothing")) is None


def test_checkpoints_of_earlier_runs_are_neither_latest_nor_removed(tmp_path):
    """An earlier run came to 100, another was resumed from its 80, and a third has begun anew."""
    prefix = str(tmp_path / "net")
    written = [
        ("a", 1, 80),
        ("a", 1, 90),
        ("a", 1, 100),
        ("a", 2, 85),
        ("b", 3, 10),
        ("b", 4, 20),
        ("b", 4, 30),
    ]
    for run, generation, iteration in written:
        write_checkpoint(checkpoint_path(prefix, iteration), Checkpoint({}, {}, Origin(run, generation)))
    assert last_generation(prefix) == 4

    def found(accepts=lambda origin: True):
        path, _ = latest(prefix, accepts=accepts)
        return path.name

    assert found() == "net_iter_30.checkpoint"
    assert found(lambda origin: origin.run == "a") == "net_iter_85.checkpoint"
    assert found(lambda origin: origin.generation < 2) == "net_iter_100.checkpoint"
    assert latest(prefix, accepts=lambda origin: origin.run == "c") is None
    prune(prefix, 2, "b")
    assert [iteration for iteration, _ in kept(prefix)] == [100, 90, 85, 80, 30, 20]
    prune(prefix, 2, "a")
    assert [iteration for iteration, _ in kept(prefix)] == [100, 85, 30, 20]


def test_a_checkpoint_of_the_version_before_is_read_as_the_oldest(tmp_path):
    prefix = str(tmp_path / "net")
    _, origin, _, body = encode(CHECKPOINT).split(b"\n", 3)
    assert origin.startswith(b"5f1c 7 ")
    digest = hashlib.sha256(body).hexdigest().encode()
    checkpoint_path(prefix, 50).write_bytes(b"netweave checkpoint 1\n" + digest + b"\n" + body)
    path, found = latest(prefix)
    assert found.state == CHECKPOINT.state
    assert found.origin == Origin()
    write_checkpoint(checkpoint_path(prefix, 3), CHECKPOINT)
    path, _ = latest(prefix)
    assert path.name == "net_iter_3.checkpoint"


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.checkpoint"
    write_checkpoint(path, CHECKPOINT)

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"a\.checkpoint: cannot be written: No space left on device"):
        write_checkpoint(path, Checkpoint({}, {}))
    assert read_checkpoint(path).state == CHECKPOINT.state
    assert [file.name for file in tmp_path.iterdir()] == ["a.checkpoint"]
