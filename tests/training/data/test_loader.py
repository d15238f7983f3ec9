"""Batches come in order, whatever the threads do; a loader goes on anywhere, to the bit."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import ReadError, ShapeError, UsageError
from netweave.runtime.engine import SerialEngine, ThreadedEngine
from netweave.training.data import EndOfDataError, Loader, Order
from netweave.training.data import loader as loader_module
from netweave.training.data.source import Source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Indexed, Iterated
from tests.training.data.make import pictures

CROP = {"kind": "crop", "height": 6, "width": 7, "where": "random"}
AUGMENT = [CROP, {"kind": "mirror"}, {"kind": "subtract", "values": [1, 2, 3]}]


class Slow(Source):
    """Pictures whose reading takes a while, more for some."""

    images = True
    place = "slow.db"

    def __init__(self, count, delay_s=0.0, *, remote=False):
        self.remote = remote
        self.pixels = pictures(count)
        self.delay_s = delay_s
        self.reading = 0
        self.most_reading = 0
        self.lock = threading.Lock()
        self.closed = False

    def __len__(self):
        return len(self.pixels)

    def read(self, index):
        with self.lock:
            self.reading += 1
            self.most_reading = max(self.most_reading, self.reading)
        if self.delay_s:
            time.sleep(self.delay_s * (1 + index % 3))
        with self.lock:
            self.reading -= 1
        return self.pixels[index], np.float32(index)

    def close(self):
        self.closed = True


def collect(
    source, count, *, threads=3, engine_type=ThreadedEngine, start=0, prefetch=3, transforms=AUGMENT, **order
):
    order = Order(num_records=None if source.endless else len(source), **order)
    with (
        engine_type({"input": 1}) as engine,
        Loader(
            source,
            ("data", "label"),
            engine=engine,
            order=order,
            transforms=transforms,
            threads=threads,
            prefetch=prefetch,
        ) as loader,
    ):
        loader.restore({"batch": start})
        found = []
        for _ in range(count):
            batch = loader.take()
            copies = {name: array.copy() for name, array in batch.arrays.items()}
            found.append((batch.number, batch.epoch, batch.padding, copies))
        return found


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one[:3] == other[:3]
        for name in one[3]:
            np.testing.assert_array_equal(one[3][name], other[3][name])


@given(
    count=st.integers(5, 30),
    batch_size=st.integers(1, 5),
    threads=st.integers(1, 4),
    prefetch=st.integers(1, 5),
    start=st.integers(0, 12),
    last=st.sampled_from(["wrap", "pad", "discard", "short"]),
    shuffle=st.booleans(),
    piece_s=st.sampled_from([1e-9, 1.0]),
    remote=st.booleans(),
    ahead=st.integers(1, 4),
)
@settings(max_examples=40, deadline=None)
def test_neither_threads_nor_beginning_change_a_bit(
    count, batch_size, threads, prefetch, start, last, shuffle, piece_s, remote, ahead
):
    pytest.importorskip("cv2")  # of a transform
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loader_module, "PIECE_S", piece_s)
        patch.setattr(loader_module, "MAX_BATCHES", ahead)
        order = {"batch_size": batch_size, "last": last, "shuffle": shuffle, "seed": 4}
        plain = collect(Slow(count), start + 6, engine_type=SerialEngine, **order)
        source = Slow(count, remote=remote)
        threaded = collect(source, 6, threads=threads, prefetch=prefetch, start=start, **order)
    assert_same(threaded, plain[start:])


def test_what_a_batch_is():
    source = Slow(5)
    first, second, third = collect(source, 3, batch_size=2, transforms=[], last="pad")
    assert [batch[0] for batch in (first, second, third)] == [0, 1, 2]
    assert [batch[2] for batch in (first, second, third)] == [0, 0, 1]
    np.testing.assert_array_equal(third[3]["data"], source.pixels[[4, 0]].transpose(0, 3, 1, 2))
    assert third[3]["label"].tolist() == [4, 0]
    assert third[3]["data"].dtype == np.float32
    assert source.closed


def test_images_lie_in_memory_as_channels_last():
    with SerialEngine() as engine:
        order = Order(num_records=5, batch_size=2)
        with Loader(Slow(5), ("data", "label"), engine=engine, order=order) as loader:
            assert loader.shapes == {"data": (2, 3, 10, 12), "label": (2,)}
            data = loader.take().arrays["data"]
    assert data.transpose(0, 2, 3, 1).flags.c_contiguous
    torch = pytest.importorskip("torch")
    assert torch.from_numpy(data).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.timing
def test_reading_goes_on_beside_the_step():
    source = Slow(64, delay_s=0.002)
    with ThreadedEngine({"input": 1}) as engine:
        order = Order(num_records=64, batch_size=8)
        with Loader(source, ("data", "label"), engine=engine, order=order, threads=4, prefetch=2) as loader:
            loader.take()
            deadline = time.monotonic() + 5  # a long step
            while engine.statistics()["input"].num_tasks < 3 * len(loader._pieces):
                assert time.monotonic() < deadline, "two more batches should be made by themselves"
                time.sleep(0.005)
            assert not any(variable._writer for slot in loader._slots for variable in slot.variables)
    assert 2 <= source.most_reading <= 4


def test_a_batch_stays_while_a_task_reads_it():
    gate, seen = threading.Event(), []
    with ThreadedEngine({"input": 2, "compute": 1}) as engine:
        order = Order(num_records=30, batch_size=2)
        with Loader(Slow(30), ("data", "label"), engine=engine, order=order, threads=2, prefetch=1) as loader:
            batch = loader.take(wait=False)

            def step(label=batch.arrays["label"]):
                gate.wait(5)
                time.sleep(0.02)
                seen.append(label.tolist())

            engine.push(step, reads=batch.variables)
            loader.take()
            loader.take(wait=False)  # would be made in the arrays of the first one
            gate.set()
            loader.take()
            engine.wait_all()
    assert seen == [[0, 1]]


def test_a_bad_record_is_named_where_its_batch_is_asked_for():
    class Bad(Slow):
        def read(self, index):
            if index == 5:
                raise ReadError("is no image", place=self.describe(index))
            return super().read(index)

    with ThreadedEngine({"input": 1}) as engine:
        order = Order(num_records=8, batch_size=2)
        with Loader(Bad(8), ("data", "label"), engine=engine, order=order, threads=2) as loader:
            assert loader.take().arrays["label"].tolist() == [0, 1]
            assert loader.take().arrays["label"].tolist() == [2, 3]
            with pytest.raises(ReadError, match=r"slow.db: record 5: is no image"):
                loader.take()
            assert loader.take().arrays["label"].tolist() == [6, 7]


def test_a_store_elsewhere_is_asked_for_several_batches_at_once():
    order = Order(num_records=200, batch_size=4)
    asked = []

    class Store(Slow):
        def fetch(self, indices):
            with self.lock:
                asked.append(tuple(indices))
                self.reading += 1
                self.most_reading = max(self.most_reading, self.reading)
            time.sleep(0.02)
            with self.lock:
                self.reading -= 1
            return [(self.pixels[index], np.float32(index)) for index in indices]

    source = Store(200, remote=True)
    with ThreadedEngine({"input": 1}) as engine:
        loader = Loader(source, ("data", "label"), engine=engine, order=order, threads=1, prefetch=2)
        with loader:
            found = [loader.take().arrays["label"].tolist() for _ in range(20)]
            number, statistics = len(asked), engine.statistics()
    assert found == [[4.0 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3] for n in range(20)]
    assert source.most_reading == 2 + loader_module.MAX_BATCHES
    assert number <= 1 + 20 + 2 + loader_module.MAX_BATCHES, (
        "one request a batch, and none beyond what is ahead"
    )
    assert statistics["fetch"].num_tasks


def test_after_an_error_of_a_store_the_loader_goes_on():
    class Store(Slow):
        down = False

        def fetch(self, indices):
            if self.down and 9 in indices:
                raise ReadError("the store is down", place="store")
            return super().fetch(indices)

    source = Store(40, remote=True)
    source.down = True
    order = Order(num_records=40, batch_size=2)
    with (
        ThreadedEngine({"input": 1}) as engine,
        Loader(source, ("data", "label"), engine=engine, order=order, threads=2, prefetch=1) as loader,
    ):
        for _ in range(4):
            loader.take()
        with pytest.raises(ReadError, match="store: the store is down"):
            loader.take()
        source.down = False
        for _ in range(2):
            assert loader.take().arrays["label"].tolist() == [10, 11]
            loader.restore({"batch": 5})
        loader.restore({"batch": 4})
        found = [loader.take().arrays["label"].tolist() for _ in range(16)]
    assert found == [[2.0 * n, 2 * n + 1] for n in range(4, 20)]


def test_other_sizes_are_refused():
    records = [(np.zeros((3, 4, 4)), 0), (np.zeros((3, 4, 5)), 0)]
    with pytest.raises(ShapeError, match="record 1: is 4 x 5 x 3 after its transforms, expected 4 x 4 x 3"):
        collect(Indexed(records), 1, batch_size=2, transforms=[])
    records = [(np.zeros(2), np.zeros(1)), (np.zeros(2), np.zeros(2))]
    with pytest.raises(ShapeError, match=r"record 1: has a part of shape \(2,\), expected \(1,\)"):
        collect(Indexed(records), 1, batch_size=2, transforms=[])
    with SerialEngine() as engine, pytest.raises(UsageError, match=r"record 0: has 2 parts, expected 1"):
        Loader(Slow(3), ("data",), engine=engine, order=Order(num_records=3, batch_size=1))


def test_arrays_are_taken_many_at_once():
    class Counting(Arrays):
        calls = 0

        def read_many(self, indices):
            self.calls += 1
            return super().read_many(indices)

    images = pictures(20).transpose(0, 3, 1, 2)
    source = Counting(images, np.arange(20))
    scale = [{"kind": "scale", "factor": 0.5}]
    found = collect(source, 3, batch_size=6, shuffle=True, transforms=scale)
    assert source.calls >= 3
    for _, _, _, arrays in found:
        np.testing.assert_array_equal(arrays["data"], images[arrays["label"].astype(int)] * np.float32(0.5))


def test_iterables():
    def numbers():
        for index in range(10):
            yield np.full(3, index), index

    found = collect(Iterated(numbers()), 3, batch_size=3, transforms=[])
    assert [batch[3]["label"].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(EndOfDataError):
        collect(Iterated(numbers()), 4, batch_size=3, transforms=[])
    later = collect(Iterated(numbers()), 1, batch_size=3, start=2, transforms=[])
    assert later[0][3]["label"].tolist() == [6, 7, 8]
    with SerialEngine() as engine:
        order = Order(num_records=None, batch_size=4)
        with Loader(Iterated(numbers()), ("data", "label"), engine=engine, order=order) as loader:
            assert len(list(loader)) == 2


def test_float64():
    with SerialEngine() as engine:
        order = Order(num_records=3, batch_size=2)
        loader = Loader(Arrays(np.full((3, 2), 0.1)), ("x",), engine=engine, order=order, dtype=np.float64)
        assert loader.take().arrays["x"].tolist() == [[0.1, 0.1]] * 2


def test_the_state_is_what_was_given_not_what_was_made():
    with ThreadedEngine({"input": 1}) as engine:
        order = Order(num_records=50, batch_size=2)
        with Loader(Slow(50), ("data", "label"), engine=engine, order=order, threads=2) as loader:
            for _ in range(3):
                loader.take()
            assert loader.state() == {"batch": 3}
