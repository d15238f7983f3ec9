"""Parts of the workbench are kept running, and one that ends as soon as it is started ends the workbench."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from netweave.errors import RunError
from netweave.web import supervised_processes
from netweave.web.supervised_processes import Part
from tests.web.running import Workbench

pytestmark = pytest.mark.multi

WAIT = "import sys; sys.stdin.read()"
READY = f"from netweave.web.supervised_processes import say_ready; say_ready(); {WAIT}"


@pytest.fixture
def clock(monkeypatch):
    """Let time pass at will; return what adds to it."""
    passed = [0.0]
    monkeypatch.setattr(supervised_processes.time, "monotonic", lambda: passed[0])

    def pass_time(seconds: float) -> None:
        passed[0] += seconds

    return pass_time


@pytest.fixture
def part_of():
    made = []

    def make(program: str) -> Part:
        made.append(Part("the part", [sys.executable, "-c", program]))
        return made[-1]

    yield make
    for part in made:
        part.end()


def run_until_it_ends(part: Part) -> None:
    part.keep()
    part._process.wait(20)
    part.keep()


def until_ready(part: Part) -> int:
    """Keep a part until it has said that it is ready; return its id."""
    end = time.perf_counter() + 20
    while part._ready_since is None:
        part.keep()
        assert time.perf_counter() < end
        time.sleep(0.01)
    return part._process.pid


def is_running(part: Part) -> bool:
    part.keep()
    return part._process is not None


def test_the_wait_doubles_and_after_some_tries_the_last_words_are_told(part_of, clock, capfd, caplog):
    part, waits = part_of("print('so far'); raise ValueError('no such table')"), []

    def try_on() -> None:
        for _ in range(20):
            run_until_it_ends(part)
            waits.append(0.0)
            while not is_running(part):
                clock(0.25)
                waits[-1] += 0.25

    with pytest.raises(RunError) as stopped:
        try_on()
    assert waits == [2.0, 4.0, 8.0]
    assert str(stopped.value).startswith(
        "the part ended 4 times as soon as it was started, the last time with exit status 1: "
        "ValueError: no such table; correct that"
    )
    assert capfd.readouterr().err.count("ValueError: no such table") == 4
    assert [record.getMessage() for record in caplog.records][-1] == (
        "the part ended with exit status 1; next try in 8 s"
    )


def test_a_part_at_work_is_started_again_at_once_however_often_it_ends(part_of, clock):
    part = part_of(f"{READY}; sys.exit(3)")
    for _ in range(2 * supervised_processes.MAX_TRIES):
        until_ready(part)
        clock(supervised_processes.SETTLED_SECONDS)
        part._process.stdin.close()
        part._process.wait(20)
        part.keep()
        assert is_running(part)


def test_a_part_that_ends_soon_after_it_was_ready_has_failed(part_of, clock):
    part = part_of(f"{READY}; sys.exit(3)")

    def run_shortly() -> None:
        clock(supervised_processes.MAX_RESTART_SECONDS)
        until_ready(part)
        clock(supervised_processes.SETTLED_SECONDS - 1)
        part._process.stdin.close()
        part._process.wait(20)
        part.keep()

    for _ in range(supervised_processes.MAX_TRIES - 1):
        run_shortly()
    with pytest.raises(RunError, match=r"the part ended 4 times .* exit status 3: it said nothing"):
        run_shortly()


def test_a_part_that_is_killed_at_work_loses_no_time_and_one_that_never_is_ready_waits(part_of, clock):
    part = part_of(READY)
    for _ in range(2 * supervised_processes.MAX_TRIES):
        os.kill(until_ready(part), signal.SIGKILL)
        part._process.wait(20)
        part.keep()
        clock(supervised_processes.RESTART_SECONDS)
        assert is_running(part)
    other = part_of(WAIT)
    for wait in (2, 4, 8, 10, 10, 10):  # without end: it may be for want of memory, which passes
        assert is_running(other)
        other._process.kill()
        other._process.wait(20)
        other.keep()
        clock(wait - 0.5)
        assert not is_running(other)
        clock(0.5)


def test_what_a_part_says_does_not_hold_it_up(part_of, clock):
    """More than a pipe holds, in which nobody would read."""
    part = part_of("import sys; sys.stderr.write('x' * 1000 + '\\n'); sys.stderr.write('y\\n' * 200_000)")
    run_until_it_ends(part)
    assert list(part._said) == ["y"] * supervised_processes.LAST_LINES


@pytest.mark.timing
@pytest.mark.slow
def test_a_server_that_cannot_start_ends_the_workbench_with_its_reason(tmp_path):
    bench = Workbench(tmp_path / "data", environment={"GUNICORN_CMD_ARGS": "--worker-class nowhere.Worker"})
    with pytest.raises(AssertionError):
        bench.start()
    assert bench.process.wait(60) == 2
    told = bench.log.strip().splitlines()[-1]
    assert "the server ended 4 times as soon as it was started, the last time with exit status 1" in told
    assert "nowhere" in told
    end = time.monotonic() + 20
    while bench.processes("netweave"):  # what the parts have started ends by itself
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
def test_a_worker_whose_database_is_gone_ends_the_workbench_with_its_reason(tmp_path):
    with Workbench(tmp_path / "data") as bench:
        for file in bench.data.glob("netweave.sqlite3*"):
            file.unlink()
        for worker in bench.processes("netweave.web.work.worker"):
            os.kill(worker, signal.SIGKILL)
        try:
            status = bench.process.wait(300)
        except subprocess.TimeoutExpired:
            pytest.fail(bench.log)
        assert status == 2
        assert "worker 1 ended 4 times as soon as it was started" in bench.log
        assert "no such table" in bench.log.strip().splitlines()[-1]
