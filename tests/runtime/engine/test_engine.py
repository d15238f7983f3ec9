"""The futures of an engine, one by one."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest

from netweave.errors import RunError, UsageError
from netweave.runtime.engine import Engine, Future, SerialEngine, ThreadedEngine, Variable


@pytest.fixture(params=[SerialEngine, ThreadedEngine])
def engine(request):
    with request.param() as engine:
        yield engine


def failing(text="broken"):
    raise ValueError(text)


def test_a_result_comes_back(engine):
    completion = engine.push(lambda: 42, name="answer")
    assert completion.result() == 42
    assert completion.done
    assert completion.exception() is None
    assert repr(completion) == "<task 'answer' on lane 'compute': done>"


def test_an_error_says_which_task_raised_it(engine):
    completion = engine.push(failing, name="load", lane="input")
    with pytest.raises(ValueError, match="broken") as caught:
        completion.result()
    assert caught.value.__notes__ == ["in task 'load' on lane 'input'"]
    assert repr(completion) == "<task 'load' on lane 'input': failed>"


def test_an_error_spoils_what_depends_on_it_until_it_is_told(engine):
    a, b, c = Variable("a"), Variable("b"), Variable("c")
    ran = []
    engine.push(failing, writes=[a])
    engine.push(lambda: ran.append("b"), reads=[a], writes=[b])
    engine.push(lambda: ran.append("c"), writes=[c])
    engine.wait_for(c)
    with pytest.raises(ValueError, match="broken"):
        engine.wait_for(b)
    engine.wait_for(b)
    engine.push(lambda: ran.append("b again"), reads=[b])
    engine.push(lambda: ran.append("a again"), writes=[a])
    with pytest.raises(ValueError, match="broken"):
        engine.wait_for(a)
    engine.push(lambda: ran.append("a at last"), writes=[a]).result()
    assert ran == ["c", "b again", "a at last"]


def test_wait_all_raises_the_first_error_and_names_the_others(engine):
    a = Variable("a")
    engine.push(lambda: failing("one"), writes=[a], name="first")
    engine.push(lambda: failing("two"), name="second")
    with pytest.raises(ValueError, match="one") as caught:
        engine.wait_all()
    assert caught.value.__notes__[1:] == ["and task 'second' failed: ValueError('two')"]
    engine.wait_all()
    engine.wait_for(a)
    assert engine.push(lambda: "fine", reads=[a]).result() == "fine"


@pytest.mark.parametrize("kind", [SerialEngine, ThreadedEngine])
def test_closing_raises_what_nobody_was_told(kind):
    engine = kind()
    engine.push(failing)
    with pytest.raises(ValueError, match="broken"):
        engine.close()
    engine.close()
    with pytest.raises(UsageError, match="task 'late' was pushed to an engine that is closed"):
        engine.push(lambda: None, name="late")


def test_wrong_calls_are_refused(engine):
    with pytest.raises(UsageError, match="unknown lane 'inputs'; expected one of compute, input, output"):
        engine.push(lambda: None, lane="inputs")
    with pytest.raises(UsageError, match="lane 'input' has 0 threads, expected at least 1"):
        engine.add_lane("input", 0)
    with SerialEngine() as other:
        shared = Variable("weights")
        other.push(lambda: None, writes=[shared])
        with pytest.raises(UsageError, match="variable 'weights' belongs to another engine"):
            engine.push(lambda: None, reads=[shared])
    with pytest.raises(TypeError):
        Engine()


def test_a_task_must_not_wait(engine):
    a = Variable("a")

    def push_and_wait():
        return engine.push(lambda: None, writes=[a]).result()

    with pytest.raises(RunError, match="a task waits for task '<lambda>', which could wait for this task"):
        engine.push(push_and_wait, writes=[a]).result()
    with pytest.raises(RunError, match="a task waits for all tasks"):
        engine.push(engine.wait_all).result()


def test_a_task_may_push_tasks(engine):
    a, seen = Variable("a"), []

    def outer():
        engine.push(lambda: seen.append("inner"), writes=[a])
        seen.append("outer")

    engine.push(outer, writes=[a])
    engine.wait_all()
    assert seen == ["outer", "inner"]


def test_a_promise_keeps_its_variables(engine):
    a, future = Variable("a"), Future()
    timer = threading.Timer(0.02, lambda: future.set("late"))
    timer.start()
    first = engine.push(lambda: future, writes=[a])
    second = engine.push(first.result, reads=[a])
    assert second.result() == "late"
    timer.join()
    with pytest.raises(AssertionError, match="a future is settled once"):
        future.set("again")


def test_a_promise_can_fail(engine):
    future = Future()
    future.fail(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        engine.push(lambda: future).result()


def test_a_finished_task_lets_go_of_its_function_and_result(engine):
    class Thing:
        pass

    thing, a = Thing(), Variable("a")
    function_ends = weakref.ref(thing)
    completion = engine.push(lambda thing=thing: Thing(), writes=[a])
    result_ends = weakref.ref(completion.result())
    engine.wait_all()
    del thing, completion
    time.sleep(0.01)  # the worker may be a step behind
    gc.collect()
    assert function_ends() is None
    assert result_ends() is None


def test_readers_run_together():
    a, meet = Variable("a"), threading.Barrier(3, timeout=5)
    with ThreadedEngine({"input": 3}) as engine:
        for _ in range(3):
            engine.push(meet.wait, reads=[a], lane="input")


def test_lanes_run_together():
    meet = threading.Barrier(2, timeout=5)
    with ThreadedEngine({"compute": 1, "output": 1}) as engine:
        engine.push(meet.wait, lane="compute")
        engine.push(meet.wait, lane="output")


def test_the_highest_priority_goes_first():
    gate, order = threading.Event(), []
    with ThreadedEngine({"compute": 1}) as engine:
        engine.push(lambda: gate.wait(5))
        for name, priority in [("a", 0), ("b", 2), ("c", 1), ("d", 2)]:
            engine.push(lambda name=name: order.append(name), priority=priority)
        gate.set()
    assert order == ["b", "d", "c", "a"]


def test_a_lane_grows_and_shrinks():
    def names(engine, count):
        meet = threading.Barrier(count, timeout=5)
        tasks = [
            engine.push(lambda: (meet.wait() and None) or threading.current_thread().name, lane="input")
            for _ in range(count)
        ]
        return {task.result() for task in tasks}

    with ThreadedEngine({"input": 1}) as engine:
        engine.add_lane("input", 4)
        assert len(names(engine, 4)) == 4
        engine.add_lane("input", 1)
        assert len({engine.push(threading.current_thread, lane="input").result() for _ in range(50)}) == 1
        engine.add_lane("extra", 2)
        engine.add_lane("input", 2)
        assert len(names(engine, 2)) == 2


def test_leaving_by_an_error_skips_what_has_not_started():
    tasks = []

    def leave():
        with ThreadedEngine({"compute": 1}) as engine:

            def run_until_the_block_is_left():
                while engine._cancelled is None:
                    time.sleep(0.001)
                return "ran"

            tasks.append(engine.push(run_until_the_block_is_left))
            tasks.append(engine.push(lambda: "ran"))
            while engine._num_unfinished == 2 and not tasks[0].started_ns:
                time.sleep(0.001)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    running, waiting = tasks
    assert running.result() == "ran"
    with pytest.raises(RunError, match="cancelled: the engine was closed before the task could start"):
        waiting.result()


def test_waiting_ends_in_time():
    gate = threading.Event()
    with ThreadedEngine() as engine:
        task = engine.push(lambda: gate.wait(5), name="slow")
        assert not task.wait(timeout_s=0.01)
        with pytest.raises(TimeoutError, match=r"task 'slow' is not done after 0.01 s"):
            task.result(timeout_s=0.01)
        gate.set()
        assert task.wait()


def test_many_threads_may_push():
    a, count = Variable("a"), [0]

    def add():
        before = count[0]
        time.sleep(0)
        count[0] = before + 1

    with ThreadedEngine({"compute": 4}) as engine:
        pushers = [
            threading.Thread(target=lambda: [engine.push(add, writes=[a]) for _ in range(100)])
            for _ in range(4)
        ]
        for pusher in pushers:
            pusher.start()
        for pusher in pushers:
            pusher.join()
        engine.wait_for(a)
        assert count == [400]


def test_no_thread_outlives_its_engine():
    before = threading.active_count()
    with ThreadedEngine({"compute": 2, "input": 3}) as engine:
        engine.push(lambda: None)
        assert threading.active_count() == before + 5
    assert threading.active_count() == before


def test_statistics_count_time():
    with ThreadedEngine({"compute": 1, "input": 1}) as engine:
        engine.push(lambda: time.sleep(0.02))
        engine.push(lambda: time.sleep(0.01))
        engine.wait_all()
        found = engine.statistics()
    assert found["input"].num_tasks == 0
    compute = found["compute"]
    assert compute.num_tasks == 2
    assert 0.03 <= compute.busy_s <= compute.elapsed_s
    assert compute.queued_s >= 0.02  # the second waited for the first
    assert compute.mean_running == pytest.approx(compute.busy_s / compute.elapsed_s)
