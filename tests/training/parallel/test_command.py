"""``netweave train`` on several devices: started two ways, killed, stopped by Ctrl-C, and refused."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.training.parallel.command import (
    TIMEOUT_S,
    arrays,
    finish,
    is_equal,
    is_there,
    ranks_of,
    start,
    write,
)

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS = 40


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, steps=STEPS)
    return tmp_path


def test_a_killed_rank_is_started_again_and_the_run_ends_with_the_same_bits(folder):
    arguments = ("--devices", "cpu:3", "--batch", "split", "--seed", "4")
    status, output = finish(start(folder, *arguments))
    assert status == 0, output
    assert "3 ranks: the file's batch of 10 is split into 4 + 3 + 3 samples; each update uses the" in output
    assert "gradients of all 10 samples" in output
    expected = arrays(folder, STEPS)
    for file in (folder / "out").iterdir():
        if "iter_40" not in file.name:
            file.unlink()  # those of iteration 40 stay: a restart must not take another run's

    process = start(folder, *arguments, "--restarts", "1", "--keep", "1")
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("Iteration 20, loss") and "restart" not in "".join(lines):
            os.kill(ranks_of(process)[1], signal.SIGKILL)
    process.stdout.close()
    assert process.wait(TIMEOUT_S) == 0, "".join(lines)
    output = "".join(lines)
    assert "rank 1 was killed by SIGKILL; starting all 3 ranks again from the last checkpoint" in output
    # that of 20 may still be on its way to the disk
    assert re.search(r"resuming from out/net_iter_[12]0.checkpoint", output), output
    assert is_equal(arrays(folder, STEPS), expected)


def test_a_rank_that_is_killed_without_restarts_is_named_and_nothing_stays_behind(folder):
    process = start(folder, "--devices", "cpu:2")
    pids = []
    for line in process.stdout:
        if line.startswith("Iteration 10, loss"):
            pids = ranks_of(process)
            os.kill(pids[0], signal.SIGKILL)
            break
    status, output = finish(process)
    assert status == 2
    assert "rank 0 was killed by SIGKILL; after 0 restarts the run is given up" in output
    assert len(pids) == 2
    assert not any(is_there(pid) for pid in pids)


SCRIPT = """
import netweave
netweave.train("solver.prototxt", devices="cpu:2", seed=4)
"""
"""Without ``if __name__ == "__main__"``, which ``multiprocessing`` would need."""


def test_torchrun_the_launcher_and_python_end_with_the_same_bits(folder):
    status, output = finish(start(folder, "--devices", "cpu:2", "--seed", "4"))
    assert status == 0, output
    assert (
        "2 ranks: each takes the file's batch of 10; each update uses the gradients of all 20 samples"
        in output
    )
    expected = arrays(folder, STEPS)
    before = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    status, output = finish(start(folder, "--seed", "4", before=before))
    assert status == 0, output
    assert is_equal(arrays(folder, STEPS), expected)
    for file in (folder / "out").iterdir():
        file.unlink()
    (folder / "script.py").write_text(SCRIPT)
    subprocess.run([sys.executable, "script.py"], cwd=folder, check=True, timeout=TIMEOUT_S)
    assert is_equal(arrays(folder, STEPS), expected)


def test_ctrl_c_stops_all_ranks_at_one_iteration_and_resume_goes_on(folder):
    text = (folder / "solver.prototxt").read_text()
    (folder / "solver.prototxt").write_text(text.replace(f"max_iter: {STEPS}", "max_iter: 100000"))
    process = start(folder, "--devices", "cpu:2", start_new_session=True)
    for line in process.stdout:
        if line.startswith("Iteration 10, loss"):
            os.killpg(process.pid, signal.SIGINT)
            break
    status, output = finish(process)
    assert status == 130, output
    assert "stopped; --resume goes on from here" in output


def test_one_timeline_of_all_ranks_and_what_each_of_them_did(folder):
    """Clocks are aligned: an all-reduce ends nowhere before it has begun everywhere."""
    status, output = finish(start(folder, "--devices", "cpu:3", "--batch", "split", "--trace", "trace.json"))
    assert status == 0, output
    events = json.loads((folder / "trace.json").read_text())
    names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert sorted(names) == [0, 1, 2]
    assert all(name.startswith(f"rank {rank} on ") for rank, name in names.items())
    assert not list(folder.glob("trace.json.rank*"))
    begun, ended = {}, {}
    for event in events:
        if event["name"].startswith("begin all-reduce"):
            begun.setdefault(event["name"].removeprefix("begin "), {})[event["pid"]] = event["ts"]
        elif event["name"].startswith("all-reduce"):
            stop = event["ts"] + event.get("dur", 0)
            sums = ended.setdefault(event["name"], {})
            sums[event["pid"]] = max(stop, sums.get(event["pid"], 0))
    assert len(begun) >= STEPS
    for name, stops in ended.items():
        assert len(stops) == 3
        assert max(begun[name].values()) <= min(stops.values()), name
    for rank in range(3):
        line = next(line for line in output.splitlines() if line.startswith(f"rank {rank} (cpu on "))
        numbers = [float(number) for number in re.findall(r"(\d+)%", line)]
        assert len(numbers) == 5
        assert all(0 <= number <= 100 for number in numbers[:3])
        assert re.search(r"; \S+ G multiply-adds/s, \d+% of a matrix product's \S+ G$", line)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--devices", "cpu:11", "--batch", "split"), "a batch has 10 records, too few for 11 ranks"),
        (("--devices", "0,1"), "no device 'cuda:0'"),
        (("--devices", "tpu:2"), "'tpu:2' is no device; expected cpu:2"),
        (("--devices", "cpu:2", "--exchange", "ring"), "'ring' is not one of"),
        (
            ("--devices", "cpu:2", "--compress", "2bit", "--threshold", "0.1", "--exchange", "owner"),
            "do not go with exchange 'owner'",
        ),
    ],
)
def test_what_cannot_be_is_refused_once_before_the_first_step(folder, arguments, message):
    status, output = finish(start(folder, *arguments))
    assert status == 2
    assert output.count(message) == 1, output
    assert "Iteration" not in output


def test_a_pipeline_tells_where_each_layer_is_in_its_log_and_trace(tmp_path):
    """Three layers in two stages, with a test of the whole net, resumed by one process."""
    write(tmp_path, steps=4, snapshot=2)
    with (tmp_path / "solver.prototxt").open("a") as file:
        file.write("test_interval: 2 test_iter: 2\n")
    options = ["--devices", "cpu:2", "--micro-batches", "5", "--log-placement", "--trace", "trace.json"]
    status, log = finish(start(tmp_path, *options))
    assert not status, log
    assert (
        "a pipeline of 2 stages: the batch of 10 passes through them in 5 micro-batches of 2 samples" in log
    )
    assert "ip1 (InnerProduct) on rank 0: all; 0 B in, 1.20 kB out" in log
    assert "out (InnerProduct) on rank 1: all" in log
    assert len(re.findall(r"accuracy.* = ", log)) >= 3
    labels = {}
    for event in json.loads((tmp_path / "trace.json").read_text()):
        if event["name"] == "process_labels":
            labels[event["pid"]] = event["args"]["labels"]
    assert labels[0].startswith("ip1")
    assert "out" in labels[1]
    assert "ip1" not in labels[1]
    status, log = finish(start(tmp_path, "--resume"))
    assert not status, log
