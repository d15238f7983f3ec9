"""Goodput beside PyTorch DDP, torchft and Ray Train: workers are killed, and a machine is taken away.

::

    sudo python -m benchmarks failures.goodput [--peers PYTHON] [--links 200mbit,1gbit] [--systems NAME,...]
        [--seconds 120] [--rounds 1] [--every 2] --json benchmarks/failures/goodput.json

The same net, batch and records, trained by each system as its documentation writes it (``goodput_loops.py``),
on two machines that are network namespaces (``parallel/network.py``). Half a minute after a first undisturbed
stretch a worker is killed (SIGKILL), and another one each minute, on both machines in turn; a minute after
it the second machine is told to end (SIGTERM to what runs there), and again every two minutes. Whatever ends
on a machine is started again at once, as a scheduler does.

Goodput is the number of updates that are in the model at the end, times the seconds of an undisturbed
update of the same system (the median of the run, without checkpoints), over the seconds that have passed.
Updates of half a batch count half. All of it is counted from outside, from the notes of the processes.
``--peers`` is a Python with torchft and Ray; without it these are left out. A call with the same file does
what is missing there.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.parallel.network import Node, network
from benchmarks.record import Namespace, Record, option

LOOPS = Path(__file__).with_name("goodput_loops.py")

KILL_EVERY_S, PREEMPT_EVERY_S, FIRST_KILL_S = 60.0, 120.0, 30.0

WARM_S = 5.0
"""The first updates allocate: they are in no figure."""

UNDISTURBED_S = 20.0

GRACE_S = 30.0

FIRST_PORT = 29500

STILL_S = 120.0
"""A system that makes no update for so long hangs."""


@dataclass(frozen=True, slots=True)
class Service:
    """A command on one machine that is started again whenever it ends.

    Attributes:
        machine: 0 or 1.
        words: The command.
        is_machine: Whether the machine's share of the run is under it: who takes the machine away signals it.
    """

    machine: int
    words: tuple[str, ...]
    is_machine: bool = True


def services(
    system: str, folder: Path, nodes: Sequence[Node], every_s: float, peers: str
) -> tuple[list[Service], dict[str, str]]:
    """Return what a system runs on the machines, and its environment.

    Two agents of torchrun share a rendezvous, for which ``PORT`` stands: an agent that is started again alone
    finds the old one complete, and fails after a minute. So they are started again together.

    Args:
        system: Of ``SYSTEMS``.
        folder: Of the run.
        nodes: The machines.
        every_s: Seconds between two checkpoints.
        peers: The interpreter of the other systems.
    """
    loop = (str(LOOPS), system, str(folder), str(every_s))
    first = nodes[0].address
    restarts = ("--nproc-per-node", "1", "--max-restarts", "1000")
    if system in {"netweave", "ddp"}:
        python = sys.executable
        rendezvous = ("--nnodes", "2", *restarts, "--rdzv-backend", "c10d", "--rdzv-id", "run")
        rendezvous += ("--rdzv-endpoint", f"{first}:PORT")
        return [
            Service(
                number,
                (
                    *(python, "-m", "torch.distributed.run", *rendezvous, "--local-addr", node.address),
                    *("--rdzv-conf", f"is_host={int(not number)}", *loop),
                ),
            )
            for number, node in enumerate(nodes)
        ], {}
    tools = Path(peers).parent
    if system == "torchft":
        lighthouse = (str(tools / "torchft_lighthouse"), "--min_replicas", "1", "--bind", "0.0.0.0:29510")
        lighthouse += ("--quorum_tick_ms", "100", "--join_timeout_ms", "10000")
        groups = [
            Service(
                number,
                (
                    *("env", f"REPLICA_GROUP_ID={number}", peers, "-m", "torch.distributed.run"),
                    *("--nnodes", "1", *restarts, "--master-addr", node.address, "--master-port", "29500"),
                    *loop,
                ),
            )
            for number, node in enumerate(nodes)
        ]
        variables = {"TORCHFT_LIGHTHOUSE": f"http://{first}:29510"}
        return [Service(0, lighthouse, is_machine=False), *groups], variables
    start = (str(tools / "ray"), "start", "--block", "--num-cpus", "1", "--disable-usage-stats")
    head = ("--head", "--port", "6379", "--include-dashboard", "false", "--node-ip-address", first)
    worker = ("--address", f"{first}:6379", "--node-ip-address", nodes[1].address)
    return [
        Service(0, (*start, *head)),
        Service(1, (*start, *worker)),
        Service(0, (peers, *loop), is_machine=False),
    ], {"RAY_ADDRESS": f"{first}:6379", "PYTHONPATH": str(LOOPS.parent)}


class Run:
    """A run of one system, whose services are started again when they end.

    Args:
        folder: Of the run; the processes note there what happens.
        nodes: The machines.
        found: The services, and their environment.
    """

    def __init__(
        self, folder: Path, nodes: Sequence[Node], found: tuple[list[Service], dict[str, str]]
    ) -> None:
        self._folder, self._nodes = folder, nodes
        self._services, self._variables = found
        self._starts = 0
        self._is_gang = any("PORT" in word for service in self._services for word in service.words)
        self._processes = [self._start(service) for service in self._services]
        self._worker = -1

    def _start(self, service: Service) -> subprocess.Popen[bytes]:
        node = self._nodes[service.machine]
        words = [word.replace("PORT", str(FIRST_PORT + self._starts)) for word in service.words]
        # the host's name is the machine's address: libraries tell others to find them by it
        named = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', node.address, *words]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **node.environment, **self._variables}
        with (self._folder / f"machine{service.machine}.log").open("ab") as log:
            return subprocess.Popen(
                node.command(named),
                cwd=self._folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def notes(self) -> list[tuple[float, str, float]]:
        """Return what the processes have noted: time, kind and number."""
        path = self._folder / "notes"
        rows = [line.split() for line in (path.read_text().splitlines() if path.exists() else [])]
        return [(float(row[0]), row[1], float(row[2])) for row in rows if len(row) == 3]

    def watch(self, until_s: float) -> None:
        """Wait until a time, and start again what ends, if need be all together."""
        while time.time() < until_s:
            ended = [number for number, process in enumerate(self._processes) if process.poll() is not None]
            if ended and self._is_gang:
                self._end_all()
                ended, self._starts = list(range(len(self._processes))), self._starts + 1
            for number in ended:
                self._processes[number] = self._start(self._services[number])
            time.sleep(0.1)

    def _end_all(self) -> None:
        """Tell all services to end, and kill what has not ended in time."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            self._kill(process)

    @staticmethod
    def _kill(process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait_for_update(self, after_s: float) -> float:
        """Return the time of the first update after a time.

        Raises:
            SystemExit: None comes.
        """
        began_s = time.time()
        while True:
            found = [row for row in self.notes() if row[1] == "update" and row[0] > after_s]
            if found:
                return min(found)[0]
            if time.time() - began_s > STILL_S:
                logs = [path.read_text(errors="replace") for path in self._folder.glob("machine*.log")]
                raise SystemExit(f"no update for {STILL_S:.0f} s:\n" + "\n".join(log[-3000:] for log in logs))
            self.watch(time.time() + 0.2)

    def kill_worker(self) -> str:
        """Kill the worker of one machine, and of the other one at the next call."""
        self._worker += 1
        node = self._nodes[self._worker % 2]
        path = self._folder / f"worker.{node.address}"
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(path.read_text()), signal.SIGKILL)
        return f"kill on machine {self._worker % 2}"

    def preempt(self) -> str:
        """Tell what runs on the second machine to end."""
        for service, process in zip(self._services, self._processes, strict=True):
            if service.machine == 1 and service.is_machine and process.poll() is None:
                process.send_signal(signal.SIGTERM)
        return "preemption of machine 1"

    def close(self) -> None:
        """Kill the services; what they have started ends with the network."""
        for process in self._processes:
            self._kill(process)


def measure(system: str, link: str, options: Namespace) -> dict[str, Any]:
    """Return the figures of one run."""
    with _run(system, link, options) as run:
        first_s = run.wait_for_update(0) + WARM_S
        start_s = first_s + UNDISTURBED_S
        run.watch(start_s)
        events = disturb(run, start_s, options.seconds)
        end_s = start_s + options.seconds
        run.wait_for_update(end_s)
        notes = run.notes()
    # the first update after the end builds on what was in the model then
    kept = next(row[2] for row in notes if row[1] == "update" and row[0] > end_s) - 1
    kept -= updates_at(notes, start_s)
    undisturbed_s = update_s([row for row in notes if row[0] >= first_s])
    saved = [value for _, kind, value in notes if kind == "saved"]
    return {
        "system": system,
        "link": link,
        "seconds": options.seconds,
        "goodput": round(kept * undisturbed_s / options.seconds, 4),
        "updates kept": round(kept, 1),
        "updates per second": round(kept / options.seconds, 4),
        "undisturbed update s": round(undisturbed_s, 4),
        "save s": round(median(saved), 3) if saved else None,
        "events": [
            after(notes, at_s, until_s - 2 * undisturbed_s, start_s) | {"what": what}
            for (at_s, what), until_s in zip(events, [*(at_s for at_s, _ in events[1:]), end_s], strict=True)
        ]
        if events
        else [],
    }


@contextlib.contextmanager
def _run(system: str, link: str, options: Namespace) -> Iterator[Run]:
    with (
        tempfile.TemporaryDirectory(prefix="goodput", ignore_cleanup_errors=True) as place,
        network(link) as nodes,
    ):
        folder = Path(place)
        run = Run(folder, nodes, services(system, folder, nodes, options.every, options.peers))
        try:
            yield run
        finally:
            run.close()


def disturb(run: Run, start_s: float, seconds: float) -> list[tuple[float, str]]:
    """Kill and preempt until so many seconds have passed; return when, and what was done."""
    kills = [FIRST_KILL_S + KILL_EVERY_S * number for number in range(int(seconds // KILL_EVERY_S) + 1)]
    ends = [60.0 + PREEMPT_EVERY_S * number for number in range(int(seconds // PREEMPT_EVERY_S) + 1)]
    plan = sorted([*((at, run.kill_worker) for at in kills), *((at, run.preempt) for at in ends)], key=_at)
    done = []
    for at, act in plan:
        if at < seconds:
            run.watch(start_s + at)
            done.append((time.time(), act()))
    run.watch(start_s + seconds)
    return done


def _at(row: tuple[float, Any]) -> float:
    return row[0]


def update_s(notes: Sequence[tuple[float, str, float]]) -> float:
    """Return the seconds of an update: the median over all that follow one another without a checkpoint."""
    times = [(at_s, number) for at_s, kind, number in notes if kind == "update"]
    saves = [at_s for at_s, kind, _ in notes if kind == "saved"]
    return median(
        (end_s - begin_s) / (end - begin)
        for (begin_s, begin), (end_s, end) in pairwise(times)
        if end > begin and not any(begin_s <= one <= end_s for one in saves)
    )


def updates_at(notes: Sequence[tuple[float, str, float]], at_s: float) -> float:
    """Return the updates in the model at a time."""
    known = [number for when_s, kind, number in notes if kind in {"update", "resumed"} and when_s <= at_s]
    return known[-1] if known else 0.0


def after(
    notes: Sequence[tuple[float, str, float]], at_s: float, until_s: float, start_s: float
) -> dict[str, Any]:
    """Return what followed an event until the next: the longest time without an update, and what it was."""
    updates = [when_s for when_s, kind, _ in notes if kind == "update"]
    gap_s, from_s = max(
        (end - begin, begin) for begin, end in pairwise(updates) if at_s < end and begin < until_s
    )
    row: dict[str, Any] = {"at s": round(at_s - start_s, 1), "without an update s": round(gap_s, 2)}
    later = [one for one in notes if from_s < one[0] <= from_s + gap_s]
    for kind in ("begun", "torch", "imported", "joined", "resumed"):
        found = [when_s for when_s, noted, _ in later if noted == kind]
        if found:  # of the process that came last: all are waited for
            row[f"{kind} after s"] = round(max(found) - from_s, 2)
    resumed = [number for _, kind, number in later if kind == "resumed"]
    if resumed:
        row["updates lost"] = round(max(0.0, updates_at(notes, from_s) - max(resumed)), 1)
    return row


SYSTEMS = ("netweave", "ddp", "torchft", "ray")


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print a table in Markdown."""
    print("\n| link | system | goodput | updates per s | update s | save s | seconds without an update |")
    print("|---|---|---|---|---|---|---|")
    for row in sorted(rows, key=lambda one: (one["link"], -one["goodput"])):
        waits = ", ".join(f"{one['without an update s']:.1f}" for one in row["events"])
        print(
            f"| {row['link']} | {row['system']} | {row['goodput']:.1%} | {row['updates per second']:.3f} | "
            f"{row['undisturbed update s']:.3f} | {row['save s']} | {waits} |"
        )


OPTIONS = (
    option("--peers", default="", help="a Python with torchft and Ray"),
    option("--links", default="200mbit,1gbit"),
    option("--systems", default=",".join(SYSTEMS)),
    option("--seconds", default=120.0, help="of each run, after its undisturbed stretch"),
    option("--rounds", default=1),
    option("--every", default=2.0, help="seconds between two checkpoints"),
)


def main(options: Namespace, record: Record) -> None:
    """Measure what the file of results lacks; see the head of the file."""
    rows: list[dict[str, Any]] = record.results.setdefault("runs", [])
    systems = [one for one in options.systems.split(",") if options.peers or one in {"netweave", "ddp"}]
    for number in range(options.rounds):
        for link in options.links.split(","):
            for system in random.Random(number).sample(systems, len(systems)):
                done = [one for one in rows if (one["system"], one["link"]) == (system, link)]
                if len(done) <= number:
                    rows.append(measure(system, link, options))
                    record.save()
                    print(rows[-1], flush=True)
    show(rows)
