"""``netweave jobs``: a job that runs is listed, viewed and stopped; one that died is not."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from netweave import api
from netweave.api import jobs
from netweave.errors import UsageError
from tests.training.parallel import command
from tests.training.singa_jobs import CLASSIFIER, job_text

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
RATE = "type: kSGD learning_rate { type: kFixed base_lr: 0.1 }"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("NETWEAVE_JOBS", str(tmp_path / "register"))
    return tmp_path / "register"


def write_entry(folder, **changes):
    row = {
        "id": 7,
        "name": "mlp",
        "file": "job.conf",
        "host": "elsewhere",
        "pid": 5,
        "started": 0.0,
        "folder": "/",
    }
    folder.mkdir(exist_ok=True)
    (folder / "7.json").write_text(json.dumps(row | changes))


def test_numbers_are_given_in_order_and_given_back():
    with jobs.registered("a", "a.conf") as first, jobs.registered("b", "b.conf") as second:
        assert (first.id, second.id) == (0, 1)
        assert [job.name for job in jobs.list_jobs()] == ["a", "b"]
        assert jobs.find_job(1) == second
        assert second.pid == os.getpid()
    assert jobs.list_jobs() == []


def test_a_job_that_died_is_forgotten(folder):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    write_entry(folder, host=jobs.socket.gethostname(), pid=process.pid)
    assert jobs.list_jobs() == []
    assert list(folder.iterdir()) == []


def test_a_job_elsewhere_is_shown_and_not_killed(folder, netweave):
    write_entry(folder)
    assert "elsewhere|5" in netweave("jobs", "list").out
    with pytest.raises(UsageError, match=r"job 7 runs on elsewhere \(process 5\); stop it there"):
        jobs.kill_job(7)


def test_a_number_that_there_is_not(netweave):
    assert netweave("jobs", "list").out == "no jobs are running\n"
    called = netweave("jobs", "view", "3")
    assert called.status == 2
    assert "no job 3 is running; there are: none" in called.err


def test_a_register_that_cannot_be_written_stops_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("NETWEAVE_JOBS", str(tmp_path / "file" / "below"))
    with jobs.registered("a", "a.conf") as entry:
        assert entry is None


@needs_torch
@pytest.mark.slow
def test_a_run_is_listed_and_stopped_with_a_checkpoint(tmp_path, netweave):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (20, 1, 2, 3), dtype=np.uint8)
    net = CLASSIFIER.replace('path: "x"', f'path: "{tmp_path}/data.bin"')
    import netweave as api

    api.pack((images, generator.integers(3, size=20)), tmp_path / "data.bin", kind="kvfile")
    text = job_text(
        net, updater=RATE, alg="kBP", more="train_steps: 99999999 disp_freq: 1000000", workspace=str(tmp_path)
    )
    (tmp_path / "job.conf").write_text(text)
    command = [sys.executable, "-m", "netweave", "train", "-conf", "job.conf"]
    environment = {**os.environ, "PYTHONPATH": str(Path(api.__file__).parents[1])}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    ) as process:
        assert process.stdout.readline() == "Unique JOB_ID is 0\n"
        assert "net" in netweave("jobs", "list").out
        assert f"|{process.pid}" in netweave("jobs", "view", "0").out
        while "Train step-0" not in process.stdout.readline():  # before, a signal ends it at once
            assert process.poll() is None
        assert "asked to write a checkpoint and stop" in netweave("jobs", "kill", "0").out
        rest = process.stdout.read()
        assert process.wait(60) == 130
    assert "stopped; --resume goes on from here" in rest
    assert list((tmp_path / "checkpoint").glob("*.checkpoint"))
    assert jobs.list_jobs() == []


@needs_torch
@pytest.mark.slow
@pytest.mark.multi
def test_ranks_of_a_job_that_is_killed_are_not_started_again(tmp_path, netweave):
    command.write(tmp_path, steps=1_000_000, snapshot=0, display=1)
    process = command.start(tmp_path, "--devices", "cpu:2", "--restarts", "3", "--seed", "4")
    with command.ended(process):
        while "Iteration 5, loss" not in process.stdout.readline():
            assert process.poll() is None
        pids = command.ranks_of(process)
        assert [(job.pid, job.launcher) for job in jobs.list_jobs()] == [(pids[0], process.pid)]
        assert ": killed" in netweave("jobs", "kill", "0", "--now").out
        status, output = command.finish(process, 60)
    assert status == 128 + signal.SIGTERM
    assert "starting all" not in output
    assert not any(map(command.is_there, pids))
    assert jobs.list_jobs() == []


def test_a_number_that_another_process_has_by_now_is_no_job(tmp_path, monkeypatch):
    """After a restart of the machine a stranger may have the process number of a job that was killed."""
    monkeypatch.setenv(jobs.FOLDER, str(tmp_path))
    with jobs.registered("net", "job.conf") as job:
        assert [found.id for found in jobs.list_jobs()] == [job.id]
        entry = tmp_path / f"{job.id}.json"
        entry.write_text(entry.read_text().replace(job.birth, "an earlier boot 1"))
        assert job.birth
        assert jobs.list_jobs() == []
        with pytest.raises(UsageError, match=f"no job {job.id} is running"):
            jobs.kill_job(job.id)


@needs_torch
@pytest.mark.slow
def test_goodput_is_shown_over_all_starts_of_a_run(tmp_path, netweave):
    """Killed after some updates, started again, and stopped."""
    pytest.importorskip("tensorboard")
    arguments = ("--seed", "4", "--requeued", "--events", "events")
    command.write(tmp_path, steps=1_000_000, snapshot=10, display=1)

    def until(process, update):
        while f"Iteration {update}, loss" not in process.stdout.readline():
            assert process.poll() is None

    process = command.start(tmp_path, *arguments)
    with command.ended(process):
        until(process, 25)
        process.kill()
        process.wait()
    process = command.start(tmp_path, *arguments)
    with command.ended(process):
        until(process, 60)
        assert re.search(r"GOODPUT\n\d+ .*\d+ s +\d+%\n", netweave("jobs", "list").out)
        assert re.search(
            r"goodput [\d.]+% of .* in 2 starts; start [\d.]+%", netweave("jobs", "view", "0").out
        )
        process.terminate()
        status, output = command.finish(process)
    assert status == 143, output
    assert re.search(r"goodput [\d.]+% of \d+ s in 2 starts; start .*, waiting [\d.]+%\n", output), output
    assert f"{api.run_goodput(tmp_path / 'events')}\n" in output
