"""A batch in shards: the same bits on any number of ranks and threads, and after a change of both."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from tests.training.parallel.ranks import Case, run

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


@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 1), (2, 2), (4, 1)])
def test_all_numbers_of_ranks_and_threads_end_with_one_hash(tmp_path, one_rank, ranks, threads):
    found = run(tmp_path, [case("lenet"), case("residual")], ranks, threads)
    assert {name: fingerprint(arrays) for name, arrays in found.items()} == one_rank


def test_a_run_goes_on_with_other_ranks(tmp_path, one_rank):
    """Four ranks, one with two threads, and two, each from the checkpoint of those before."""
    first, second = "kept_iter_7.checkpoint", "kept_iter_13.checkpoint"
    parts = [
        (4, 1, case("residual", "first", steps=7, snapshot=7, folder="resized")),
        (1, 2, case("residual", "second", steps=13, snapshot=13, resume=first, folder="resized")),
        (2, 1, case("residual", "third", resume=second, folder="resized")),
    ]
    losses = []
    for ranks, threads, one in parts:
        arrays = run(tmp_path, [one], ranks, threads)[one.name]
        losses.append(arrays.pop("losses"))
    assert fingerprint({**arrays, "losses": np.concatenate(losses)}) == one_rank["residual"]


def test_shards_are_as_good_as_the_whole_batch(tmp_path):
    """In float64, where rounding is small; without batch statistics, which differ from shard to shard."""
    found = run(tmp_path, [case("lenet", dtype="float64")], 2)["lenet"]
    whole = run(tmp_path / "whole", [case("lenet", dtype="float64", same_bits=None)], 1)["lenet"]
    assert found.keys() == whole.keys()
    assert max(np.abs(found[key] - whole[key]).max() for key in whole) < 1e-12
