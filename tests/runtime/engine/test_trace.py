"""The timeline: what a trace viewer is given."""

from __future__ import annotations

import json
import threading
import time

import pytest

from netweave.errors import WriteError
from netweave.runtime.engine import Future, ThreadedEngine, Trace, Variable, threaded


def events_of(path):
    return json.loads(path.read_text())


def test_every_task_is_a_box(tmp_path):
    path = tmp_path / "trace.json"
    batch = Variable("batch")
    with ThreadedEngine({"compute": 1, "input": 1}, trace=Trace(path)) as engine:
        engine.push(lambda: time.sleep(0.01), writes=[batch], lane="input", name="decode")
        engine.push(lambda: None, reads=[batch], name="step", priority=3)
    events = events_of(path)
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    decode, step = (event for event in events if event["ph"] == "X")
    assert (decode["name"], decode["cat"], rows[decode["tid"]]) == ("decode", "input", "input 0")
    assert (step["name"], step["cat"], rows[step["tid"]]) == ("step", "compute", "compute 0")
    assert decode["args"]["writes"] == step["args"]["reads"] == ["batch"]
    assert decode["dur"] >= 10_000
    assert step["ts"] >= decode["ts"] + decode["dur"] - 0.001
    assert step["args"]["blocked_us"] >= 9_000
    assert step["args"]["priority"] == 3


def test_errors_and_futures_are_shown(tmp_path):
    path, future = tmp_path / "trace.json", Future()
    with ThreadedEngine(trace=Trace(path)) as engine:
        failed = engine.push(lambda: 1 / 0, name="divide")
        assert isinstance(failed.exception(), ZeroDivisionError)
        sent = engine.push(lambda: future, name="send")
        threading.Timer(0.01, future.set).start()
        sent.result()
    events = {(event["ph"], event["name"]): event for event in events_of(path)}
    assert events["X", "divide"]["args"]["error"] == "ZeroDivisionError('division by zero')"
    begin, end = events["b", "send"], events["e", "send"]
    assert begin["id"] == end["id"]
    assert end["ts"] - begin["ts"] >= 9_000


def test_a_trace_that_was_not_closed_can_be_mended(tmp_path, monkeypatch):
    monkeypatch.setattr(threaded, "FLUSH_EVENTS", 4)
    path = tmp_path / "trace.json"
    trace = Trace(path)
    with ThreadedEngine(trace=trace) as engine:
        for _ in range(20):
            engine.push(lambda: None)
        engine.wait_all()
        text = path.read_text()
        assert text.endswith(",\n")
        assert len(json.loads(text.rstrip(",\n") + "]")) >= 16
    trace.close()


def test_a_trace_needs_a_place(tmp_path):
    with pytest.raises(WriteError, match="cannot be written: No such file or directory"):
        Trace(tmp_path / "missing" / "trace.json")
