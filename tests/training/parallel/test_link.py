"""When collectives begin: as many at a time as may be, in order, and not later than they could."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.runtime.engine import ThreadedEngine, Variable
from netweave.training.parallel.link import Channel, fastest_update_s
from netweave.training.parallel.occupancy import Occupancy

IN_FLIGHT = 2


class Work:
    """A collective that ends when it is told."""

    def __init__(self):
        self._callbacks = []

    def get_future(self):
        return self

    def add_done_callback(self, callback):
        self._callbacks.append(callback)

    def value(self):
        return None

    def end(self):
        for callback in self._callbacks:
            callback(self)


class Link:
    """A channel without ranks, and the works of its collectives in the order of their beginning."""

    def __init__(self, engine):
        world = SimpleNamespace(
            progress=SimpleNamespace(collectives=0),
            watched=lambda name: contextlib.nullcontext(),
            occupancy=Occupancy(),
        )
        self.begun = []
        self._came = threading.Semaphore(0)
        self._channel = Channel(world, engine, "test", in_flight=IN_FLIGHT)

    def push(self, variable):
        def begin():
            self.begun.append((variable.name, Work()))
            self._came.release()
            return self.begun[-1][1]

        return self._channel.push(begin, variable, name=variable.name)

    def wait_for_one(self, timeout_s=5.0):
        return self._came.acquire(timeout=timeout_s)


@pytest.fixture
def engine():
    with ThreadedEngine({"compute": 1}) as engine:
        yield engine


def test_a_collective_waits_for_an_earlier_one_and_not_for_what_comes_after_that(engine):
    """The next backward pass writes the gradient of the earlier one again; that is no reason to wait."""
    link = Link(engine)
    gradients = [Variable(f"gradient {number}") for number in range(3)]
    done = [link.push(gradient) for gradient in gradients[:IN_FLIGHT]]
    for _ in range(IN_FLIGHT):
        assert link.wait_for_one()
    for _, work in link.begun:
        work.end()
    assert all(one.wait(5.0) for one in done)
    backward_may_end = threading.Event()
    engine.push(backward_may_end.wait, (), gradients[:IN_FLIGHT], name="a long backward pass")
    try:
        link.push(gradients[2])
        assert link.wait_for_one(), "the collective waits for a backward pass that it does not depend on"
        link.begun[-1][1].end()
    finally:
        backward_may_end.set()


def test_no_more_collectives_than_allowed_are_on_their_way(engine):
    link = Link(engine)
    done = [link.push(Variable(str(number))) for number in range(7)]
    for number in range(7):
        assert link.wait_for_one()
        if number + 1 >= IN_FLIGHT:
            link.begun[number + 1 - IN_FLIGHT][1].end()
    assert len(link.begun) == 7
    link.begun[-1][1].end()
    assert all(one.wait(5.0) for one in done)
    assert [name for name, _ in link.begun] == [str(number) for number in range(7)]


def test_a_collective_too_many_does_not_begin(engine):
    link = Link(engine)
    for number in range(IN_FLIGHT + 1):
        link.push(Variable(str(number)))
    for _ in range(IN_FLIGHT):
        assert link.wait_for_one()
    assert not link.wait_for_one(timeout_s=0.05)
    for number in range(IN_FLIGHT + 1):
        if number == IN_FLIGHT:
            assert link.wait_for_one()
        link.begun[number][1].end()


@given(
    st.lists(st.lists(st.floats(0.01, 5), min_size=3, max_size=3), min_size=1, max_size=5), st.floats(0, 9)
)
def test_the_time_of_the_link_is_that_of_the_update_that_was_held_up_least(updates, pause):
    """Three collectives in an update, one after another; what an incomplete update has does not count."""
    intervals, now = [(0.0, 1e-6)], 1.0
    for lengths in updates:
        now += pause
        for length in lengths:
            intervals.append((now, now + length))
            now += length
    assert fastest_update_s(intervals, 3) == pytest.approx(min(map(sum, updates)))
    assert fastest_update_s(intervals[:3], 4) == 0
