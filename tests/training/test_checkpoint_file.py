"""Checkpoint files: whole or not there, and never believed when damaged."""

from __future__ import annotations

import os
import random

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.errors import ReadError, RunError
from netweave.training.checkpoint_file import (
    Checkpoint,
    checkpoint_path,
    encode,
    kept,
    latest,
    prune,
    read_checkpoint,
    write_checkpoint,
)

CHECKPOINT = Checkpoint(
    {"iteration": 3, "losses": [0.1, 1e-300]},
    {"param:a/0": np.arange(6, dtype=np.float32).reshape(2, 3), "solver:h:a/0": np.float64([[1 / 3]])}
    | {"param:scale": np.array(2.5, np.float32)},
)


def test_round_trip(tmp_path):
    path = tmp_path / "new" / "a.checkpoint"
    write_checkpoint(path, CHECKPOINT)
    found = read_checkpoint(path)
    assert found.state == CHECKPOINT.state
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
    (tmp_path / "net_iter_100.checkpoint").write_bytes(b"netweave checkpoint 1\nx")
    (tmp_path / "other_iter_200.checkpoint").write_bytes(b"")
    told = []
    path, found = latest(prefix, told.append)
    assert (path.name, found.state) == ("net_iter_10.checkpoint", {"iteration": 10})
    assert len(told) == 1
    assert "net_iter_100.checkpoint: is damaged" in told[0]
    prune(prefix, 1)
    assert [iteration for iteration, _ in kept(prefix)] == [100]
    with pytest.raises(ReadError, match="is damaged"):
        latest(prefix)
    assert latest(str(tmp_path / "nothing")) is None


def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "a.checkpoint"
    write_checkpoint(path, CHECKPOINT)

    def full(number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=r"a\.checkpoint: cannot be written: No space left on device"):
        write_checkpoint(path, Checkpoint({}, {}))
    assert read_checkpoint(path).state == CHECKPOINT.state
    assert [file.name for file in tmp_path.iterdir()] == ["a.checkpoint"]
