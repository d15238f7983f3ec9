"""Which records are in which batch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.training.data import Order


def records(order, count):
    return [order.plan(number).records.tolist() for number in range(count)]


@given(st.integers(1, 40), st.integers(1, 12), st.booleans(), st.integers(0, 3))
def test_wrapping_takes_every_record_once_an_epoch(num_records, batch_size, shuffle, seed):
    order = Order(num_records=num_records, batch_size=batch_size, shuffle=shuffle, seed=seed)
    taken = np.concatenate(records(order, 3 * num_records))
    for epoch in range(len(taken) // num_records):
        part = taken[epoch * num_records : (epoch + 1) * num_records]
        assert sorted(part.tolist()) == list(range(num_records))
        if not shuffle:
            assert part.tolist() == list(range(num_records))


@given(st.integers(1, 40), st.integers(1, 12), st.sampled_from(["pad", "discard", "short"]), st.booleans())
def test_epochs_that_begin_anew(num_records, batch_size, last, shuffle):
    if num_records < batch_size and last != "short":
        with pytest.raises(
            ValueError, match=f"there are {num_records} records, fewer than the {batch_size} "
        ):
            Order(num_records=num_records, batch_size=batch_size, last=last)
        return
    order = Order(num_records=num_records, batch_size=batch_size, shuffle=shuffle, last=last)
    per_epoch = order.batches_per_epoch
    for epoch in range(2):
        plans = [order.plan(epoch * per_epoch + batch) for batch in range(per_epoch)]
        assert {plan.epoch for plan in plans} == {epoch}
        real = np.concatenate([t.records[: len(t.records) - t.padding] for t in plans]).tolist()
        assert len(set(real)) == len(real)
        assert len(real) == (num_records - num_records % batch_size if last == "discard" else num_records)
        sizes = {len(plan.records) for plan in plans[:-1]}
        assert sizes <= {batch_size}
        if last == "pad":
            padding = plans[-1].padding
            assert padding == -num_records % batch_size
            np.testing.assert_array_equal(
                plans[-1].records[batch_size - padding :], order.epoch(epoch)[:padding]
            )


def test_shuffling_is_by_seed_and_epoch():
    order = Order(num_records=100, batch_size=10, shuffle=True, seed=1)
    assert not np.array_equal(order.epoch(0), order.epoch(1))
    assert not np.array_equal(
        order.epoch(0), Order(num_records=100, batch_size=10, shuffle=True, seed=2).epoch(0)
    )
    again = Order(num_records=100, batch_size=10, shuffle=True, seed=1)
    assert records(again, 30) == records(order, 30)


def test_files_stay_together_when_shuffled():
    order = Order(num_records=9, batch_size=3, shuffle=True, groups=(4, 3, 2), seed=3)
    seen = set()
    for epoch in range(20):
        files = [0 if index < 4 else 1 if index < 7 else 2 for index in order.epoch(epoch)]
        changes = sum(a != b for a, b in itertools.pairwise(files))
        assert changes == 2
        assert sorted(order.epoch(epoch)) == list(range(9))
        seen.add(tuple(dict.fromkeys(files)))
    assert len(seen) == 6


def test_a_drawn_number_of_records_is_skipped():
    starts = {
        int(Order(num_records=50, batch_size=5, skip=20, seed=seed).plan(0).records[0]) for seed in range(200)
    }
    assert starts == set(range(20))
    order = Order(num_records=50, batch_size=5, skip=20, seed=1)
    first = order.plan(0).records[0]
    assert order.plan(3).records[0] == first + 15


def test_what_has_no_end():
    order = Order(num_records=None, batch_size=4)
    assert records(order, 2) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert order.batches_per_epoch is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_records": 5, "batch_size": 0}, "the batch size is 0, expected at least 1"),
        ({"num_records": 0, "batch_size": 1}, "there are 0 records, fewer than"),
        ({"num_records": 5, "batch_size": 1, "last": "x"}, "is 'x', expected wrap, pad, discard, short"),
        ({"num_records": None, "batch_size": 1, "shuffle": True}, "no known end cannot be shuffled"),
        ({"num_records": None, "batch_size": 1, "last": "pad"}, "'pad' where there is no known end"),
    ],
)
def test_wrong_orders(settings, message):
    with pytest.raises(ValueError, match=message):
        Order(**settings)


def test_transforms_draw_by_the_place_in_the_run():
    order = Order(num_records=5, batch_size=2, seed=7)
    assert order.generator(3).random() == order.generator(3).random()
    assert order.generator(3).random() != order.generator(4).random()
