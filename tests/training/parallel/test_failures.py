"""Ranks that do not fit together, die, stand still or lose their launcher: one message, never a hang."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

from netweave.training import read_checkpoint
from netweave.training.checkpoint_file import kept
from tests.training.parallel.command import (
    NET,
    TIMEOUT_S,
    arrays,
    ended,
    finish,
    is_equal,
    is_there,
    ranks_of,
    start,
    start_rank,
    write,
)

pytestmark = [pytest.mark.multi, pytest.mark.slow]

SEED = ("--seed", "4", "--batch", "split")

OLDER = """import sys, netweave
netweave.__version__ = "0.0.9"
del sys.argv[1:3]
from netweave.cli import main
main()"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def lines_until(process, text):
    """Return what a process says up to a line with a text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            break
    return "".join(lines)


@pytest.mark.timing
@pytest.mark.parametrize(
    ("write_other", "arguments", "before", "message"),
    [
        ({"steps": 50}, (), (), "has max iterations 50, the others 40"),
        ({"net": NET.replace("num_output: 30", "num_output: 31")}, (), (), "has a net with the fingerprint"),
        ({}, ("--exchange", "owner"), (), 'has the exchange\'s kind "owner", the others "overlapped"'),
        ({}, ("--slice-elements", "128"), (), "has slices with the fingerprint"),
        ({}, ("--precision", "bf16"), (), 'has the precision "bf16", the others "f32"'),
        ({}, ("--seed", "5"), (), "has the seed 5, the others 4"),
        ({"snapshot": 7}, (), (), "has iterations between checkpoints 7, the others 10"),
        ({}, (), [sys.executable, "-c", OLDER], "has netweave 0.0.9, torch"),
    ],
)
def test_ranks_that_do_not_fit_together_end_with_one_message(
    tmp_path, write_other, arguments, before, message
):
    """Started one by one, as a scheduler does: each on its machine with its own files."""
    write(tmp_path / "0", steps=40)
    write(tmp_path / "1", **{"steps": 40, **write_other})
    port = free_port()
    began_s = time.monotonic()
    processes = [
        start_rank(tmp_path / "0", 0, 2, port, *SEED),
        start_rank(tmp_path / "1", 1, 2, port, *SEED, *arguments, before=before),
    ]
    with ended(*processes):
        results = [finish(process) for process in processes]
    assert time.monotonic() - began_s < 60
    for status, output in results:
        assert status in {2, 75}, output
        assert output.count("netweave:") == 1, output
        assert f"rank 1 (pid {processes[1].pid} on " in output
        assert message in output
        assert "Iteration" not in output


def test_a_rank_that_fails_alone_is_the_cause_that_the_others_name(tmp_path):
    write(tmp_path, steps=40)
    port = free_port()
    processes = [
        start_rank(tmp_path, 0, 2, port, *SEED),
        start_rank(tmp_path, 1, 2, port, *SEED, "--weights", "elsewhere.caffemodel"),
    ]
    with ended(*processes):
        (first, said), (second, cause) = [finish(process) for process in processes]
    assert (first, second) == (75, 2)
    assert "elsewhere.caffemodel" in cause
    assert f"rank 1 (pid {processes[1].pid} on " in said
    assert "failed: elsewhere.caffemodel" in said


@pytest.mark.timing
@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--data", "train=elsewhere"), "elsewhere"),
        (("--exchange", "ring"), "Invalid value for '--exchange'"),
    ],
)
def test_a_rank_that_fails_before_it_joins_is_named_at_once(tmp_path, failing, arguments, message):
    """Not after the timeout of a minute; rank 0 then holds the store only to say so."""
    write(tmp_path, steps=40)
    port = free_port()
    began_s = time.monotonic()
    processes = [
        start_rank(tmp_path, rank, 3, port, *SEED, *(arguments if rank == failing else ()))
        for rank in range(3)
    ]
    with ended(*processes):
        results = [finish(process) for process in processes]
    assert time.monotonic() - began_s < 45
    for rank, (status, output) in enumerate(results):
        assert output.count("netweave:") == 1, output
        assert message in output
        if rank == failing:
            assert status == 2
        else:
            assert status == 75
            assert f"rank {failing} failed: " in output


def test_two_runs_with_one_prefix_are_refused(tmp_path):
    write(tmp_path, steps=1_000_000, snapshot=0, display=1)
    first = start(tmp_path, *SEED)
    with ended(first):
        lines_until(first, "Iteration 2, loss")
        status, output = finish(start(tmp_path, "--devices", "cpu:2", *SEED))
        assert status == 2
        assert output.count("netweave:") == 1, output
        assert f"another run (process {first.pid} on " in output
        assert "is writing checkpoints 'out/net'" in output
        assert "Iteration" not in output
        assert first.poll() is None
        first.kill()
        first.wait()
    write(tmp_path, steps=2, snapshot=0)  # what was killed holds nothing any more
    assert finish(start(tmp_path, *SEED))[0] == 0
    assert not list((tmp_path / "out").glob("*.lock"))


def test_a_slow_rank_is_named_while_it_is_slow(tmp_path):
    """All ranks take equally long for an update, as they wait for each other: it computes for longer."""
    write(tmp_path, steps=1_000_000, snapshot=0, display=1)
    process = start(tmp_path, "--devices", "cpu:3", *SEED)
    with ended(process):
        lines_until(process, "Iteration 20, loss")
        pid = ranks_of(process)[1]
        over = threading.Event()
        thread = threading.Thread(target=slow_down, args=(pid, over))
        thread.start()
        hangs = threading.Timer(90, process.kill)
        hangs.start()
        try:
            said = lines_until(process, "is slow")
            assert f"netweave: rank 1 (pid {pid} on " in said
        finally:
            over.set()
            thread.join()
        assert "is slow" not in lines_until(process, "is no longer slow")
        hangs.cancel()
        assert process.poll() is None


def slow_down(pid, over):
    """Let a process run for a quarter of the time."""
    while not over.is_set():
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.06)
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)


def test_a_rank_that_was_killed_is_named_without_a_launcher(tmp_path):
    write(tmp_path, steps=1_000_000, snapshot=0)
    port = free_port()
    processes = [start_rank(tmp_path, rank, 3, port, *SEED) for rank in range(3)]
    with ended(*processes):
        lines_until(processes[0], "Iteration 10, loss")
        processes[1].kill()
        results = [finish(processes[rank], 60) for rank in (0, 2)]
    for status, output in results:
        assert status == 75
        assert f"rank 1 (pid {processes[1].pid} on " in output
        assert output.count("netweave:") == 1, output


@pytest.mark.timing
def test_a_rank_that_stands_still_is_named_and_the_run_goes_on(tmp_path):
    for name in ("whole", "stopped"):
        write(tmp_path / name, steps=150, snapshot=50, display=1)
    status, output = finish(start(tmp_path / "whole", "--devices", "cpu:3", *SEED))
    assert status == 0, output
    process = start(tmp_path / "stopped", "--devices", "cpu:3", *SEED)
    with ended(process):
        lines_until(process, "Iteration 20, loss")
        began_s, pid = time.monotonic(), ranks_of(process)[2]
        os.kill(pid, signal.SIGSTOP)
        said = lines_until(process, "has not answered")
        assert f"netweave: rank 2 (pid {pid} on " in said
        assert time.monotonic() - began_s < 10
        os.kill(pid, signal.SIGCONT)
        status, output = finish(process)
    assert status == 0, output
    assert f"rank 2 (pid {pid} on " in output
    assert "answers again" in output
    assert is_equal(arrays(tmp_path / "stopped", 150), arrays(tmp_path / "whole", 150))


def test_a_rank_that_does_not_come_back_ends_the_run(tmp_path):
    write(tmp_path, steps=1_000_000, snapshot=0, display=1)
    process = start(tmp_path, "--devices", "cpu:3", *SEED, "--timeout", "8")
    with ended(process):
        lines_until(process, "Iteration 20, loss")
        pids = ranks_of(process)
        os.kill(pids[1], signal.SIGSTOP)
        status, output = finish(process, 60)
    assert status == 2
    assert f"failed: rank 1 (pid {pids[1]} on " in output
    assert not any(map(is_there, pids))


@pytest.mark.timing
def test_ranks_end_with_their_launcher(tmp_path):
    write(tmp_path, steps=1_000_000, snapshot=0, display=1)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    process = start(tmp_path, "--devices", "cpu:2", *SEED, env={**os.environ, "TMPDIR": str(temporary)})
    with ended(process):
        lines_until(process, "Iteration 10, loss")
        pids = ranks_of(process)
        process.kill()
        until_s = time.monotonic() + 20
        while any(map(is_there, pids)) and time.monotonic() < until_s:
            time.sleep(0.1)
        assert len(pids) == 2
        assert not any(map(is_there, pids))
    assert not list(temporary.iterdir())


def test_an_earlier_run_s_checkpoints_are_not_taken_by_a_restart(tmp_path):
    """A rank dies before the first checkpoint; that of the earlier run stays, and stays unread."""
    write(tmp_path, steps=20)
    assert finish(start(tmp_path, "--devices", "cpu:2", *SEED))[0] == 0
    (_, earlier), *_ = kept(str(tmp_path / "out/net"))
    before = Path(earlier).read_bytes()
    write(tmp_path, steps=15, display=1, snapshot=0)
    process = start(tmp_path, "--devices", "cpu:2", *SEED, "--restarts", "1")
    with ended(process):
        lines_until(process, "Iteration 2, loss")
        os.kill(ranks_of(process)[1], signal.SIGKILL)
        status, output = finish(process, TIMEOUT_S)
    assert status == 0, output
    if "starting all" in output:  # else the run was over before the signal
        assert "this run has no complete checkpoint yet; starting again from its beginning" in output
    assert "resuming" not in output
    assert Path(earlier).read_bytes() == before
    assert read_checkpoint(tmp_path / "out/net_iter_15.checkpoint").state["iteration"] == 15
