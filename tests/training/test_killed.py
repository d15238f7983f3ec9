"""Runs killed at any moment, or without room on the disk, that go on: they end the same to the bit."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave import api
from netweave.training import Note, latest, read_checkpoint
from netweave.training.checkpoint_file import kept
from tests.training import killed

KILLS = 50
pytestmark = pytest.mark.multi


@pytest.fixture(scope="module")
def processes():
    """Processes that need not import torch each."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.training.killed"])
    return context


@pytest.fixture
def one_thread():
    """As in the processes."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@contextlib.contextmanager
def running(processes, folder, net, **options):
    """A process that trains; yields it, and what hears from it."""
    hear, tell = processes.Pipe(duplex=False)
    process = processes.Process(target=killed.run, args=(str(folder), net, tell), kwargs=options)
    process.start()
    tell.close()
    try:
        yield process, hear
    finally:
        process.kill()
        process.join()


def words(hear):
    """Return all that a process says until it ends."""
    found = []
    with contextlib.suppress(EOFError):
        while True:
            found.append(hear.recv())
    return found


def whole_run(processes, folder, net):
    """Run undisturbed; return the last checkpoint and how long the steps took."""
    folder.mkdir()
    killed.write(folder, net)
    with running(processes, folder, net) as (_, hear):
        assert hear.recv() == "begins"
        begin = time.perf_counter()
        assert words(hear) == ["ends"]
    return last_checkpoint(folder), time.perf_counter() - begin


def last_checkpoint(folder):
    (iteration, path), *_ = kept(str(folder / killed.PREFIX))
    assert iteration == killed.STEPS
    return read_checkpoint(path)


def assert_equal(found, expected):
    """Parameters, solver, random numbers, recurrent memory, and where the data are: all to the bit."""
    assert found.state == expected.state
    assert list(found.arrays) == list(expected.arrays)
    for name, array in expected.arrays.items():
        assert found.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(found.arrays[name], array, err_msg=name)


def run_with_kills(processes, folder, net, duration, draw, most):
    """Kill and go on until the run is through; return how often, and how often amid a checkpoint."""
    folder.mkdir()
    killed.write(folder, net)
    kills = amid = 0
    while kills < most:
        with running(processes, folder, net) as (process, hear):
            heard = hear.recv()
            if heard == "begins" and hear.poll(draw.uniform(0, 0.6 * duration)):
                heard = hear.recv()
            if heard != "begins":
                assert heard == "ends"
                return kills, amid
            process.kill()
            process.join()
            kills += 1
            amid += bool(list((folder / "kept").glob(".*.unfinished")))
    with running(processes, folder, net) as (_, hear):
        assert words(hear)[-1] == "ends"
    return kills, amid


@pytest.mark.parametrize("net", killed.NETS)
def test_killed_once_or_twice(processes, tmp_path, net):
    whole, duration = whole_run(processes, tmp_path / "whole", net)
    assert any(name.startswith("memory:") for name in whole.arrays) == (net == "recurrent")
    kills, _ = run_with_kills(processes, tmp_path / "killed", net, duration, random.Random(1), most=2)
    assert kills >= 1
    assert_equal(last_checkpoint(tmp_path / "killed"), whole)


@pytest.mark.slow
@pytest.mark.parametrize("net", killed.NETS)
def test_killed_at_random_moments(processes, tmp_path, net):
    draw = random.Random(0)
    whole, duration = whole_run(processes, tmp_path / "whole", net)
    kills = amid = number = 0
    while kills < KILLS:
        number += 1
        folder = tmp_path / f"killed{number}"
        more = run_with_kills(processes, folder, net, duration, draw, KILLS - kills)
        kills, amid = kills + more[0], amid + more[1]
        assert_equal(last_checkpoint(folder), whole)
    assert kills == KILLS
    assert amid >= 3


def test_a_file_that_may_not_grow_ends_the_run_and_spoils_nothing(processes, tmp_path):
    """RLIMIT_FSIZE: the system refuses to write on, in the midst of a checkpoint."""
    whole, duration = whole_run(processes, tmp_path / "whole", "dropped")
    folder = tmp_path / "short"
    folder.mkdir()
    killed.write(folder, "dropped")
    with running(processes, folder, "dropped") as (_, hear):
        hear.recv()
        time.sleep(duration / 3)
    before = {path: path.read_bytes() for _, path in kept(str(folder / killed.PREFIX))}
    assert before
    with running(processes, folder, "dropped", most_bytes=100_000) as (_, hear):
        assert "cannot be written: File too large" in words(hear)[-1]
    assert {path: path.read_bytes() for _, path in kept(str(folder / killed.PREFIX))} == before
    with running(processes, folder, "dropped") as (_, hear):
        assert words(hear)[-1] == "ends"
    assert_equal(last_checkpoint(folder), whole)


@contextlib.contextmanager
def small_disk(folder, num_bytes):
    """A file system of its own size; skips where there may be none."""
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)]
    made = subprocess.run(["mount", *options], capture_output=True) if os.geteuid() == 0 else None
    if made is None or made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_the_run_and_spoils_nothing(processes, tmp_path):
    whole, _ = whole_run(processes, tmp_path / "whole", "dropped")
    sizes = [path.stat().st_size for path in (tmp_path / "whole" / "kept").glob("*_iter_30*")]
    folder = tmp_path / "short"
    with small_disk(folder, 2 * sum(sizes) + 200_000):
        killed.write(folder, "dropped")
        with running(processes, folder, "dropped") as (_, hear):
            assert "cannot be written: No space left on device" in words(hear)[-1]
        found = latest(str(folder / killed.PREFIX))
        assert found is not None
        assert found[1].state["iteration"] >= 1
        larger = ["mount", "-o", f"remount,size={sum(sizes) * (killed.STEPS + 5)}", str(folder)]
        subprocess.run(larger, check=True)
        with running(processes, folder, "dropped") as (_, hear):
            assert words(hear)[-1] == "ends"
        assert_equal(last_checkpoint(folder), whole)


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(processes, tmp_path, one_thread):
    whole, _ = whole_run(processes, tmp_path / "whole", "recurrent")
    prefix = str(tmp_path / "whole" / killed.PREFIX)
    (_, last), (_, before), *_ = kept(prefix)
    content, draw = last.read_bytes(), random.Random(0)
    for number in range(500):
        last.write_bytes(damaged(content, draw, cut=number % 5 == 0))
        told = []
        used, checkpoint = latest(prefix, told.append)
        assert used == before
        assert checkpoint.state["iteration"] == killed.STEPS - 1
        assert len(told) == 1
        assert f"{last}: is " in told[0]
    told.clear()
    job = api.load_job(tmp_path / "whole" / "solver.prototxt", input_shapes=killed.SHAPES["recurrent"])
    api.train(job, data={"train": killed.records("recurrent")}, resume=True, watch=told.append)
    notes = [event.text for event in told if isinstance(event, Note)]
    assert f"{last}: is " in notes[0]
    assert notes[1] == f"resuming from {before}"
    assert_equal(read_checkpoint(last), whole)


def damaged(content, draw, *, cut):
    """Return a file with its end cut off, or with one bit turned over."""
    if cut:
        return content[: draw.randrange(len(content))]
    changed = bytearray(content)
    changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def test_what_was_half_written_goes(processes, tmp_path):
    """It is no checkpoint, and is written over when the run gets there again."""
    folder = tmp_path / "run"
    folder.mkdir()
    killed.write(folder, "dropped")
    (folder / "kept").mkdir()
    unfinished = folder / "kept" / ".net_iter_3.checkpoint.unfinished"
    unfinished.mkdir()
    (unfinished / "net_iter_3.checkpoint").write_bytes(b"netweave checkpoint 1\nhalf")
    with running(processes, folder, "dropped") as (_, hear):
        assert words(hear)[-1] == "ends"
    assert not list(Path(folder, "kept").glob(".*"))
