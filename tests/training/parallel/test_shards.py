"""Sums over shards, and the shards that ranks take: without processes."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

import netweave
from netweave.api.jobs import joined
from netweave.errors import UnsupportedError, UsageError
from netweave.runtime.engine import Trace
from netweave.training.checkpoint_file import Checkpoint
from netweave.training.data import BatchShards, Order, Shards
from netweave.training.loading import PhaseLoader
from netweave.training.net_passes import NetPasses
from netweave.training.parallel.environment import told_by
from netweave.training.parallel.shards import ShardBatch, ShardSum, blocks_of, check_promise, kernels
from netweave.training.shard_ranks import ShardRanks
from tests.training import staged
from tests.training.test_step_program import boxes_of


def rows_of(size):
    """Return rows of so many shards; sums of them depend on the order."""
    return np.random.default_rng(size).normal(size=(size, 50)).astype(np.float32)


def tree(rows):
    """Return the sum by the rule as it is written: whole blocks of a power of two, then from the left."""
    if not len(rows) & (len(rows) - 1):
        half = len(rows) // 2
        return rows[0] if not half else tree(rows[:half]) + tree(rows[half:])
    total, at = None, 0
    while at < len(rows):
        block = 1 << ((len(rows) - at).bit_length() - 1)
        part = tree(rows[at : at + block])
        total, at = part if total is None else total + part, at + block
    return total


@pytest.mark.parametrize("size", range(1, 25))
def test_a_sum_depends_on_the_number_of_shards_alone(size):
    rows = rows_of(size)
    expected = tree(rows)
    for ranks in (one for one in range(1, size + 1) if size % one == 0):
        count, total = size // ranks, ShardSum()
        for rank in range(ranks):
            own = ShardSum()
            for shard in range(rank * count, (rank + 1) * count):
                own.add(shard, shard + 1, torch.tensor(rows[shard]))
            assert [block[:2] for block in own.blocks] == blocks_of(range(rank * count, (rank + 1) * count))
            for start, stop, row in own.blocks:
                total.add(start, stop, row)
        assert total.take().numpy().tobytes() == expected.tobytes()
        assert not total.blocks


def test_a_sum_leaves_the_rows_of_single_shards_alone():
    rows = rows_of(7)
    given, total = torch.tensor(rows), ShardSum()
    for shard, row in enumerate(given):
        total.add(shard, shard + 1, row)
    total.take()
    assert given.numpy().tobytes() == rows.tobytes()


def test_the_order_of_a_sum_matters():
    """Else the test above could not fail."""
    rows = rows_of(8)
    assert tree(rows).tobytes() != np.add.accumulate(rows)[-1].tobytes()


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ranks_together_take_all_shards_of_each_batch_in_order(ranks):
    order = Order(num_records=30, batch_size=8, seed=3, shuffle=True)
    shards = [BatchShards(order, Shards(rank * (4 // ranks), 4 // ranks, 4), "data") for rank in range(ranks)]
    for number in range(9):
        plans = [one.plan(number * (4 // ranks) + own) for one in shards for own in range(4 // ranks)]
        assert (
            np.concatenate([plan.records for plan in plans]).tolist() == order.plan(number).records.tolist()
        )
        assert [plan.offset for plan in plans] == [0, 2, 4, 6]
    assert shards[0].shards.whole_number(shards[0].shards.own_number(7)) == 7


@pytest.mark.parametrize(
    ("records", "last", "message"),
    [
        (
            30,
            "wrap",
            r"data: a batch has 10 records, which are not 4 shards of equal size; take a batch size",
        ),
        (
            29,
            "short",
            r"data: the last batch of an epoch has 9 records, which are not 5 shards of equal size",
        ),
    ],
)
def test_shards_of_unequal_size_are_refused(records, last, message):
    order = Order(num_records=records, batch_size=10, seed=0, last=last)
    with pytest.raises(UsageError, match=message):
        BatchShards(order, Shards(0, 1, 4 if last == "wrap" else 5), "data")


def test_a_mean_over_shards_is_that_of_the_batch():
    batch = ShardBatch(4)
    assert batch.divisor(6) == 6
    assert batch.divisor(None) == 1 / 4
    assert batch.normalises_parts
    assert float(batch.total(torch.tensor(3.0)) / batch.total(torch.tensor(4.0))) == 0.75
    with pytest.raises(UnsupportedError, match=r"labels or weights that differs from shard to shard"):
        batch.divisor(torch.tensor(3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"same_bits": 0}, r"same_bits is 0, expected at least 1"),
        ({"same_bits": 2, "exchange": "owner"}, r"same_bits is for the exchange 'overlapped' without compr"),
        ({"same_bits": 2, "compression": "fp16"}, r"not 'overlapped' with 'fp16'"),
        ({"same_bits": 2, "precision": "bf16"}, r"same_bits does not go with memory or precision"),
        ({"checkpoint_every": "soon"}, r"checkpoint_every is 'soon', expected a time such as 60s, 10m or 2h"),
        ({"checkpoint_every": 0}, r"checkpoint_every is 0, expected a time"),
    ],
)
def test_options_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        netweave.TrainOptions(**settings)


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("1.5m", 90), ("2h", 7200), (0.5, 0.5)])
def test_times_between_checkpoints(text, seconds):
    assert netweave.TrainOptions(checkpoint_every=text).checkpoint_every_s == seconds


def test_a_checkpoint_whose_bits_cannot_be_kept_is_refused():
    promised = Checkpoint({"same bits": {**kernels(), "the number of shards": 8}}, {})
    check_promise(netweave.TrainOptions(same_bits=8), promised)
    other = Checkpoint({"same bits": {**kernels(), "the processor": "a Z80", "the number of shards": 8}}, {})
    message = r"the run would go on with other bits: the processor was a Z80, and is .*; .* --other-bits"
    with pytest.raises(UsageError, match=message):
        check_promise(netweave.TrainOptions(same_bits=8), other)
    with pytest.raises(UsageError, match=r"the number of shards was 8, and is none"):
        check_promise(netweave.TrainOptions(), promised)
    check_promise(netweave.TrainOptions(same_bits=8, other_bits=True), other)
    check_promise(netweave.TrainOptions(same_bits=8), Checkpoint({}, {}))


@pytest.mark.parametrize("ranks", [1, 3, 1000])
def test_one_sum_tells_all_ranks_what_any_was_asked_for(ranks):
    for stop, weight in ((0, 0.0), (130, 1.0), (143, 2.0**20)):
        for saves in (False, True):
            own = weight + 2.0**40 * saves
            assert told_by(own + (ranks - 1) * weight) == {"stop": stop, "saves": saves}


def test_the_last_stage_of_all_shards_is_differentiated_first(tmp_path, monkeypatch):
    """So that its gradients are sent while earlier stages compute; the bits are those of pass after pass."""
    job = staged.job_of(tmp_path, staged.HARD, steps=3)
    ends, orders = [], []
    for held in (1, 4):
        monkeypatch.setattr(ShardRanks, "num_held", held)
        options = netweave.TrainOptions(same_bits=4, sync_batch_norm=False)
        path = tmp_path / f"{held}.json"
        with joined(options) as world:
            _, arrays = staged.train(
                job,
                trace=Trace(path),
                world=world,
                same_bits=4,
                sync_batch_norm=False,
                num_stages=3,
                slice_elements=64,
                dtype=torch.float32,
            )
        ends.append({key: tensor.numpy().tobytes() for key, tensor in arrays.items()})
        boxes = boxes_of(path)
        names = sorted((name for name in boxes if name.startswith("backward 1, ")), key=boxes.__getitem__)
        orders.append([name.removeprefix("backward 1, ") for name in names])
    assert ends[0] == ends[1]
    stages, shards = range(2, -1, -1), range(4)
    assert orders[0] == [f"stage {stage}, batch {shard}" for shard in shards for stage in stages]
    assert orders[1] == [f"stage {stage}, batch {shard}" for stage in stages for shard in shards]


def test_a_forward_that_is_held_is_computing(tmp_path, monkeypatch):
    """Else its time would count as waiting for data: the second shard is taken while the first computes."""
    job = staged.job_of(tmp_path, staged.DROPPED, steps=2)
    monkeypatch.setattr(ShardRanks, "num_held", 2)
    began, go_on, idle = threading.Event(), threading.Event(), []
    forward, take = NetPasses._forward, PhaseLoader.take

    def held(passes, step, part, *arguments):
        if (step, part.number) == (1, 0):
            began.set()
            assert go_on.wait(60)
        return forward(passes, step, part, *arguments)

    def taken(loader, idle_since):
        is_held = len(idle) == 3  # the second shard of the second update
        assert not is_held or began.wait(60)
        idle.append(idle_since())
        if is_held:
            go_on.set()
        return take(loader, idle_since)

    monkeypatch.setattr(NetPasses, "_forward", held)
    monkeypatch.setattr(PhaseLoader, "take", taken)
    with joined(netweave.TrainOptions(same_bits=2)) as world:
        staged.train(job, world=world, same_bits=2, dtype=torch.float32)
    assert idle[3] == math.inf
