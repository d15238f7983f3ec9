"""Times of stages within one another."""

from __future__ import annotations

import time

import pytest

from netweave.comparison.stopwatch import Stopwatch


def test_a_stage_within_another_counts_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = Stopwatch()
    with clock.time("judge"):
        now[0] += 1
        for _ in range(2):
            with clock.time("run"):
                now[0] += 10
                with clock.time("read"):
                    now[0] += 100
        now[0] += 2
    assert clock.seconds == {"judge": 3, "run": 20, "read": 200}


def test_the_time_of_a_stage_that_fails_counts(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    clock = Stopwatch()

    def fail():
        with clock.time("judge"), clock.time("run"):
            now[0] += 5
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert clock.seconds == {"judge": 0, "run": 5}
