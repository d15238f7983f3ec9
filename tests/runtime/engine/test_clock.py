"""An engine with a clock starts tasks as threads would, and runs none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.runtime.engine import ClockEngine, Price, Variable

LANES = {"a": 1, "b": 2}
TASKS = st.lists(
    st.tuples(
        st.sampled_from(sorted(LANES)),
        st.sets(st.integers(0, 3), max_size=2),
        st.sets(st.integers(0, 3), max_size=2),
        st.integers(0, 8),
        st.booleans(),
    ),
    max_size=12,
)


class Rows:
    """A trace that keeps when each task ran, by name."""

    def __init__(self):
        self.times = {}

    def add_task(self, task, ended_ns):
        self.times[int(task.name)] = (task.started_ns / 1e9, ended_ns / 1e9)

    def close(self):
        pass


def clocked(tasks, *, processor):
    rows, variables = Rows(), [Variable(str(number)) for number in range(4)]

    def price(task):
        _, _, _, seconds, is_sent = tasks[int(task.name)]
        return Price(seconds, processor, wire="wire" if is_sent else "")

    engine = ClockEngine(price, LANES, trace=rows)
    for number, (lane, reads, writes, _, _) in enumerate(tasks):
        engine.push(
            lambda: pytest.fail("a task was run"),
            [variables[one] for one in sorted(reads)],
            [variables[one] for one in sorted(writes)],
            lane=lane,
            name=str(number),
        )
    engine.wait_all()
    engine.close()
    return rows.times, engine.now_s


@given(TASKS)
def test_what_touches_the_same_variable_comes_one_after_another(tasks):
    times, end_s = clocked(tasks, processor=0.0)
    assert len(times) == len(tasks)
    for later, (_, reads, writes, seconds, is_sent) in enumerate(tasks):
        began, ended = times[later]
        assert ended - began >= seconds - 1e-9
        if not is_sent:
            assert ended - began <= seconds + 1e-9
        for earlier in range(later):
            _, their_reads, their_writes, _, _ = tasks[earlier]
            if writes & (their_reads | their_writes) or reads & their_writes:
                assert began >= times[earlier][1] - 1e-9
    assert end_s <= sum(task[3] for task in tasks) + 1e-9


@given(TASKS)
def test_one_processor_does_no_more_than_one(tasks):
    _, end_s = clocked(tasks, processor=1.0)
    assert end_s == pytest.approx(sum(task[3] for task in tasks))


def test_a_transfer_takes_its_share_of_the_processor_and_of_the_wire():
    prices = {"compute": Price(3.0), "send": Price(4.0, 0.25, wire="wire"), "next": Price(1.0, 0.0, "wire")}
    engine = ClockEngine(lambda task: prices[task.name], {"compute": 1, "link": 1})
    ends = {}
    done = [
        engine.push(lambda: None, lane="compute" if name == "compute" else "link", name=name)
        for name in prices
    ]
    for one in done:
        one.wait()
        ends[one.name] = engine.now_s
    # 3 s of computing at three quarters of a processor take 4 s, as long as the transfer; the next one waits
    assert ends == {"compute": 4.0, "send": 4.0, "next": 5.0}


def test_the_higher_priority_goes_first():
    engine = ClockEngine(lambda task: Price(1.0), {"a": 1})
    first, second = (
        engine.push(lambda: None, lane="a", priority=priority, name=str(priority)) for priority in (0, 1)
    )
    assert second.wait()
    assert engine.now_s == 1.0
    assert not first.done
