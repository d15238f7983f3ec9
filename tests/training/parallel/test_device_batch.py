"""Devices of one process that wait for each other in the middle of a pass."""

from __future__ import annotations

import threading
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from netweave.errors import RunError  # noqa: E402
from netweave.runtime.engine import ThreadedEngine, Variable  # noqa: E402 - after the check for torch
from netweave.training.parallel.device_batch import Meeting  # noqa: E402


def pass_of(meeting, number, before=lambda: None):
    def task():
        before()
        return meeting.total(number, torch.ones(1))

    return partial(meeting.guard, task)


def test_nobody_waits_for_a_device_whose_pass_was_cancelled():
    """An error of the caller's own, a second Ctrl-C: the engine does not begin what has not begun."""
    meeting, began, free = Meeting(2), threading.Event(), threading.Event()
    engine = ThreadedEngine({"first": 1, "second": 1})
    first = engine.push(pass_of(meeting, 0, began.set), lane="first", skipped=meeting.fail)
    engine.push(free.wait, lane="second")
    second = engine.push(pass_of(meeting, 1), lane="second", skipped=meeting.fail)
    assert began.wait(10)
    closing = threading.Thread(target=partial(engine.close, cancel=True), daemon=True)
    closing.start()
    while engine._cancelled is None:
        closing.join(0.01)
    free.set()
    closing.join(10)
    assert not closing.is_alive()
    for one in (first, second):
        with pytest.raises(RunError, match="cancelled"):
            one.result()


def test_nobody_waits_for_a_device_whose_pass_an_earlier_error_has_spoiled():
    meeting, array = Meeting(2), Variable("array")

    def fail():
        raise ValueError("no memory for the copy")

    with ThreadedEngine({"first": 1, "second": 1}) as engine:
        engine.push(fail, (), [array], lane="second")
        first = engine.push(pass_of(meeting, 0), lane="first", skipped=meeting.fail)
        second = engine.push(pass_of(meeting, 1), [array], lane="second", skipped=meeting.fail)
        for one in (first, second):
            with pytest.raises(ValueError, match="no memory"):
                one.result(timeout_s=10)
