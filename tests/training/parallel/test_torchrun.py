"""Two agents of ``torchrun``, as on two machines: what is killed is started again, and the bits are the same.

The restarts that ``torchrun`` counts are each agent's own, and after one of them the ranks may be numbered
otherwise.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from tests.training.parallel import command

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS, SNAPSHOT = 600, 50
HANG_S = 240.0
"""A run that has not ended by then hangs: a start takes 5 to 20 s, and there are three."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The parameters at the end of a run of two ranks that nobody disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    command.write(folder, steps=STEPS, snapshot=0)
    status, output = command.finish(
        command.start(folder, "--devices", "cpu:2", "--batch", "split", "--seed", "4")
    )
    assert status == 0, output
    return command.arrays(folder, STEPS)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def agent(folder, node, port, *more):
    """Start one agent with one worker; what it says goes to a file, as it outlives what reads it."""
    arguments = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "3", "--rdzv-backend", "c10d"]
    arguments += ["--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "run", "--local-addr", "127.0.0.1"]
    arguments += ["--rdzv-conf", f"is_host={int(node == 0)}"]
    arguments += ["-m", "netweave", "train", "solver.prototxt", "--batch", "split", "--seed", "4"]
    arguments += more
    with (folder / f"agent{node}.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *arguments],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        )


def logs(folder):
    return "".join(path.read_text(errors="replace") for path in sorted(folder.glob("agent*.log")))


def wait_until(folder, is_so):
    """Wait for a state; fail with what the agents have said if it does not come."""
    until_s = time.monotonic() + HANG_S
    while not is_so():
        assert time.monotonic() < until_s, logs(folder)
        time.sleep(0.1)


def has_checkpoint(folder):
    return any((folder / "out").glob("net_iter_*.checkpoint"))


@contextlib.contextmanager
def ended(agents):
    """Kill at the end the agents and workers that are still there."""
    try:
        yield
    finally:
        for one in agents:
            for pid in [*command.ranks_of(one), one.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            one.wait()


@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_worker_of_one_agent_is_started_again(tmp_path, whole, node):
    command.write(tmp_path, steps=STEPS, snapshot=SNAPSHOT, display=10)
    port = free_port()
    agents = [agent(tmp_path, 0, port), agent(tmp_path, 1, port)]
    with ended(agents):
        wait_until(tmp_path, lambda: has_checkpoint(tmp_path))
        os.kill(command.ranks_of(agents[node])[-1], signal.SIGKILL)
        wait_until(tmp_path, lambda: all(one.poll() is not None for one in agents))
        assert [one.returncode for one in agents] == [0, 0], logs(tmp_path)
    assert "resuming from out/net_iter_" in logs(tmp_path)
    assert command.is_equal(command.arrays(tmp_path, STEPS), whole)


def test_a_run_goes_on_when_an_agent_was_killed_and_all_are_started_again(tmp_path, whole):
    """As by a scheduler; torchrun's own agents do not find each other again when one of them has died."""
    command.write(tmp_path, steps=STEPS, snapshot=SNAPSHOT, display=10)
    port = free_port()
    agents = [agent(tmp_path, 0, port), agent(tmp_path, 1, port)]
    with ended(agents):
        wait_until(tmp_path, lambda: has_checkpoint(tmp_path))
        for pid in [agents[1].pid, *command.ranks_of(agents[1])]:  # as when the machine goes
            os.kill(pid, signal.SIGKILL)
        agents[0].terminate()
        wait_until(tmp_path, lambda: all(one.poll() is not None for one in agents))
    assert not (tmp_path / f"out/net_iter_{STEPS}.checkpoint").exists()
    port = free_port()
    agents = [agent(tmp_path, node, port, "--requeued") for node in range(2)]
    with ended(agents):
        wait_until(tmp_path, lambda: all(one.poll() is not None for one in agents))
        assert [one.returncode for one in agents] == [0, 0], logs(tmp_path)
    assert "resuming from out/net_iter_" in logs(tmp_path)
    assert command.is_equal(command.arrays(tmp_path, STEPS), whole)
