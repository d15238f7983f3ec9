"""Where the time of a run went, over all its starts."""

from __future__ import annotations

import json

import pytest

from netweave.training import goodput
from netweave.training.goodput import Ledger, read_goodput


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now_s = 1000.0

    def time(self):
        return self.now_s


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(goodput, "time", clock)
    monkeypatch.setattr(goodput, "_process_age_s", lambda: 0.0)
    return clock


def train(clock, ledger, seconds, step_s=1.0):
    for _ in range(int(seconds / step_s)):
        ledger.begin_update()
        clock.now_s += step_s
    ledger.begin_update()


def test_every_second_of_a_run_has_one_cause(clock, tmp_path):
    """5 s of start, updates with 5 s of data and 2 s of writing, 17 s that are lost, 8 s of nobody."""
    path = tmp_path / "goodput" / "net.json"
    first = Ledger(path, "run", 0)
    clock.now_s += 3
    train(clock, first, 58)
    first.spend("data", 5)
    first.spend("checkpoint", 2)
    clock.now_s += 2
    first.save(50, 0.0)
    train(clock, first, 17)
    first.write()
    clock.now_s += 8
    second = Ledger(path, "run", 50)
    clock.now_s += 2
    train(clock, second, 10)
    found = second.end(4.0)
    assert found == read_goodput(path)
    assert found.elapsed_s == 100
    assert found.num_starts == 2
    seconds = {cause: round(share * 100, 9) for cause, share in found.causes.items()}
    assert seconds == {
        "start": 5,
        "data": 5,
        "exchange": 4,
        "checkpoint": 2,
        "test": 0,
        "lost": 17,
        "waiting": 8,
    }
    assert round(found.kept * 100, 9) == 100 - sum(seconds.values()) == 59
    assert str(found) == (
        "goodput 59.0% of 100 s in 2 starts; start 5.0%, data 5.0%, exchange 4.0%, checkpoint 2.0%, "
        "lost 17.0%, waiting 8.0%"
    )


def test_checkpoints_that_a_start_does_not_resume_from_are_lost(clock, tmp_path):
    path = tmp_path / "goodput" / "net.json"
    first = Ledger(path, "run", 0)
    train(clock, first, 10)
    first.save(10, 0.0)
    train(clock, first, 10)
    first.save(20, 0.0)
    second = Ledger(path, "run", 10)
    train(clock, second, 20)
    found = second.end(0.0)
    assert (found.kept, found.causes["lost"]) == (0.75, 0.25)


def test_a_process_that_was_started_to_go_on_counts_as_a_start(clock, tmp_path, monkeypatch):
    first = Ledger(tmp_path / "goodput" / "net.json", "run", 0)
    train(clock, first, 10)
    first.save(10, 0.0)
    clock.now_s += 6
    monkeypatch.setattr(goodput, "_process_age_s", lambda: 4.0)
    second = Ledger(tmp_path / "goodput" / "net.json", "run", 10)
    train(clock, second, 4)
    found = second.end(0.0)
    assert (found.kept, found.causes["start"], found.causes["waiting"]) == (0.7, 0.2, 0.1)


def test_another_run_begins_a_ledger_of_its_own(clock, tmp_path):
    path = tmp_path / "goodput" / "net.json"
    train(clock, Ledger(path, "run", 0), 10)
    other = Ledger(path, "another", 0)
    train(clock, other, 10)
    assert other.end(0.0).num_starts == 1
    assert json.loads(path.read_text())["run"] == "another"


def test_a_ledger_that_is_damaged_or_cannot_be_written_changes_nothing(clock, tmp_path):
    path = tmp_path / "goodput" / "net.json"
    path.parent.mkdir()
    path.write_text('{"run": "run"')
    assert read_goodput(path) is None
    ledger = Ledger(path, "run", 5)
    train(clock, ledger, 1)
    assert ledger.end(0.0) == read_goodput(path) is not None
    nowhere = Ledger(path / "net.json", "run", 0)  # in a file, not a folder
    train(clock, nowhere, 1)
    assert nowhere.end(0.0).kept == 1


def test_a_run_without_an_update_has_no_goodput(clock, tmp_path):
    ledger = Ledger(None, "run", 0)
    assert ledger.end(0.0) is None
