"""Starts one process for each device of this machine, and starts them again when one dies.

The launcher holds the store through which the ranks find each other, so that it outlives them. The system
chooses the port, the store listens on the loopback only, and keys carry the attempt: two runs on one machine
do not meet, nor does a restart meet its dead predecessor. A rank whose launcher dies loses the store and
ends.

All ranks are started again, unless the one that died has said in the store with which others it is to be
started again, and that the rest can wait for them. For the first of those a process stands by that has
imported what a rank needs, which is most of the time of a start (docs/decisions/0288).
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import RunError
from netweave.runtime.engine.threaded import num_cores
from netweave.training.parallel.environment import (
    DEVICE,
    ERROR_FILE,
    GROUP_LOST,
    INTERRUPTED,
    LAUNCHED,
    PREEMPTED,
    REJOINS,
    RESTARTS,
    UNITS,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.distributed import TCPStore

GRACE_S = 5.0
"""So long may the other ranks take to end by themselves when one has failed."""

LINGER_S = 60.0
"""So long may ranks take to end when one has ended well: they waited for each other, and are done."""

POLL_S = 0.05

STAND_BY_S = 2.0
"""So long after a start the next process is made to stand by: what has just begun needs the processors."""

MODULE = "-m"
"""Python's option for a module; a rank that is started by it can stand by."""


@dataclass(frozen=True, slots=True)
class Exit:
    """The way in which a rank ended.

    Attributes:
        rank: Its number.
        status: Exit status; minus the number of the signal that killed it.
        message: What it said of its error, if anything.
    """

    rank: int
    status: int
    message: str

    @property
    def is_cause(self) -> bool:
        """True if it failed by itself, not because another did."""
        return self.status not in {0, GROUP_LOST}

    @property
    def is_final(self) -> bool:
        """True if it would fail again: it said what is wrong."""
        return self.is_cause and bool(self.message)

    def __str__(self) -> str:
        if self.status < 0:
            return f"rank {self.rank} was killed by {signal.Signals(-self.status).name}"
        return f"rank {self.rank} ended with status {self.status}"


@dataclass(slots=True)
class Launcher:
    """Runs a command once for each device.

    Attributes:
        command: What each rank runs.
        devices: The device of each rank.
        restarts: How often ranks are started again after one died.
        tell: Told of restarts.
        environment: Variables of the ranks besides those of this process.
        grace_s: So long may ranks take to write a checkpoint and end, when a signal says that the machine is
            taken away.
        stop_signal: Name of a further signal that says so, besides SIGTERM.
        preload: Modules that a process imports that stands by for a rank; none stands by without.
    """

    command: Sequence[str]
    devices: Sequence[str]
    restarts: int
    tell: Callable[[str], None]
    environment: dict[str, str] = field(default_factory=dict)
    grace_s: float = 30.0
    stop_signal: str = "TERM"
    preload: Sequence[str] = ()
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _ordered: signal.Signals | None = None
    _num_restarts: int = 0
    _standby: StandBy | None = None
    _started_s: float = 0.0

    def run(self) -> int:
        """Run to the end; return the exit status of the ranks.

        Raises:
            RunError: Ranks failed more often than ``restarts``; the message names rank and cause.
        """
        with (
            self._signals(),
            tempfile.TemporaryDirectory(prefix="netweave-") as folder,
            store_on_loopback() as store,
        ):
            failed: Exit | None = None
            while failed is None or self._num_restarts <= self.restarts:
                try:
                    self._start(store, Path(folder))
                    exits = self._wait(store, Path(folder))
                finally:
                    self._end()
                failed = _cause(exits)
                if failed is None:
                    return max(one.status for one in exits)
                if failed.is_final:
                    raise RunError(failed.message)
                if self._ordered:  # to end: ranks that an order has killed are not started again
                    self.tell(f"ended by {self._ordered.name}; --resume goes on from the last checkpoint")
                    return 128 + self._ordered
                self._num_restarts += 1
                if self._num_restarts <= self.restarts:
                    said = f": {failed.message}" if failed.message else ""
                    self.tell(
                        f"{failed}{said}; starting all {len(self.devices)} ranks again from the last "
                        f"checkpoint (restart {self._num_restarts} of {self.restarts})"
                    )
        assert failed is not None
        said = f": {failed.message}" if failed.message else ""
        raise RunError(
            f"{failed}{said}; after {self.restarts} restarts the run is given up, --resume goes on from the "
            "last checkpoint"
        )

    def _start(self, store: TCPStore, folder: Path) -> None:
        for rank in range(len(self.devices)):
            store.delete_key(f"{UNITS}/{rank}")
            _error_file(folder, rank).unlink(missing_ok=True)
        self._processes = []  # one by one: what has begun is ended if the next cannot begin
        for rank in range(len(self.devices)):
            self._processes.append(self._spawn(self._variables(store, folder, rank)))
        self._started_s = time.monotonic()

    def _shared_variables(self) -> dict[str, str]:
        threads = str(max(1, num_cores() // len(self.devices)))
        return {"OMP_NUM_THREADS": threads, **os.environ, **self.environment}

    def _variables(self, store: TCPStore, folder: Path, rank: int) -> dict[str, str]:
        size = len(self.devices)
        return {
            **self._shared_variables(),
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": str(self._num_restarts),
            ERROR_FILE: str(_error_file(folder, rank)),
            LAUNCHED: str(os.getpid()),
            RESTARTS: str(self.restarts),
            DEVICE: self.devices[rank],
        }

    def _spawn(self, variables: dict[str, str]) -> subprocess.Popen[bytes]:
        """Start one rank with an environment."""
        return subprocess.Popen(list(self.command), env=variables)

    def _wait(self, store: TCPStore, folder: Path) -> list[Exit]:
        """Wait until all ranks have ended, or one has failed and the others had their time."""
        ends_s = lingers_s = float("inf")
        while any(process.poll() is None for process in self._processes) and time.monotonic() < ends_s:
            if ends_s == float("inf") and self._ordered not in {None, signal.SIGINT}:
                for process in self._processes:
                    process.terminate()
                ends_s = time.monotonic() + self.grace_s
            failed = any(process.poll() for process in self._processes)
            if failed and ends_s == float("inf") and not self._start_again(store, folder):
                ends_s = time.monotonic() + GRACE_S
            if lingers_s == float("inf") and any(process.poll() == 0 for process in self._processes):
                lingers_s = time.monotonic() + LINGER_S
            if time.monotonic() >= lingers_s:
                break
            self._let_stand_by(store)
            time.sleep(POLL_S)
        statuses = [process.poll() for process in self._processes]
        if 0 in statuses and not any(statuses):
            for rank, status in enumerate(statuses):
                if status is None:
                    self.tell(f"rank {rank} has not ended within {LINGER_S:.0f} s of the others; ending it")
            statuses = [0] * len(statuses)
        return [
            Exit(rank, GROUP_LOST if status is None else status, _message(_error_file(folder, rank)))
            for rank, status in enumerate(statuses)
        ]

    def _start_again(self, store: TCPStore, folder: Path) -> bool:
        """Start a rank that was killed again, with those that it belongs to; return whether that was done."""
        for rank, process in enumerate(self._processes):
            died = Exit(rank, process.poll() or 0, _message(_error_file(folder, rank)))
            if not died.is_cause or died.is_final or died.status in {INTERRUPTED, PREEMPTED}:
                continue
            if self._ordered or self._num_restarts >= self.restarts or not store.check([f"{UNITS}/{rank}"]):
                continue
            unit = json.loads(store.get(f"{UNITS}/{rank}"))
            self._num_restarts += 1
            count = f"restart {self._num_restarts} of {self.restarts}"
            standby, self._standby = self._standby, None
            said = f"; rank {unit[0]} is process {standby.process.pid}" if standby is not None else ""
            self.tell(f"{died}; starting {' and '.join(f'rank {one}' for one in unit)} again ({count}){said}")
            for one in unit:
                self._processes[one].kill()
            for one in unit:
                self._processes[one].wait()
                _error_file(folder, one).unlink(missing_ok=True)
                variables = {**self._variables(store, folder, one), REJOINS: "1"}
                known = standby.become(variables) if standby is not None and one == unit[0] else None
                self._processes[one] = known or self._spawn(variables)
            self._started_s = time.monotonic()
            return True
        return False

    def _let_stand_by(self, store: TCPStore) -> None:
        """Make a process stand by where a rank may be started again alone, and none does."""
        if self._standby is not None and self._standby.process.poll() is not None:
            self._standby.end()
            self._standby = None
        is_wanted = self.preload and self._standby is None and self._num_restarts < self.restarts
        is_over = self._ordered or any(process.poll() is not None for process in self._processes)
        if not is_wanted or is_over or time.monotonic() - self._started_s < STAND_BY_S:
            return
        if self.command[1] == MODULE and any(
            store.check([f"{UNITS}/{rank}"]) for rank in range(len(self.devices))
        ):
            self._standby = StandBy.of(self.command, self.preload, self._shared_variables())

    def _end(self) -> None:
        if self._standby is not None:
            self._standby.end()
            self._standby = None
        for process in self._processes:
            if process.poll() is None:
                process.kill()
        for process in self._processes:
            process.wait()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Leave Ctrl-C to the ranks, which get it too and stop together; pass on that the machine goes."""

        def note(number: int, frame: object) -> None:
            self._ordered = signal.Signals(number)

        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread may handle signals
            return
        numbers = {signal.SIGINT, signal.SIGTERM, getattr(signal, f"SIG{self.stop_signal}")}
        before = {number: signal.signal(number, note) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True, slots=True)
class StandBy:
    """A process that has imported what a rank needs, and becomes one when it is told which.

    Attributes:
        process: The process; a child of the launcher, as all ranks are.
        orders: Where the variables of its rank are written to; it ends when this is closed without any.
    """

    process: subprocess.Popen[bytes]
    orders: int

    @staticmethod
    def of(command: Sequence[str], preload: Sequence[str], variables: dict[str, str]) -> StandBy:
        """Start one.

        Args:
            command: What the rank runs: Python, ``-m``, a module and its arguments.
            preload: The modules to import.
            variables: Those that all ranks have; libraries read the number of threads as they are imported.
        """
        python, _, *words = command
        receives, orders = os.pipe()
        try:
            process = subprocess.Popen(
                [python, MODULE, __name__, str(receives), ",".join(preload), *words],
                env=variables,
                pass_fds=[receives],
            )
        except OSError:
            os.close(orders)
            raise
        finally:
            os.close(receives)
        return StandBy(process, orders)

    def become(self, variables: dict[str, str]) -> subprocess.Popen[bytes] | None:
        """Let it be a rank with an environment; return its process, or None if it has died."""
        content = json.dumps(variables).encode()
        try:
            with open(self.orders, "wb") as orders:  # noqa: PTH123 - a descriptor
                orders.write(content)
        except BrokenPipeError:
            self.process.wait()
            return None
        return self.process

    def end(self) -> None:
        """Let it end."""
        os.close(self.orders)
        self.process.kill()
        self.process.wait()


def stand_by(orders: int, preload: str, module: str, *arguments: str) -> None:
    """Import modules, wait for the variables of a rank, and run a module as that rank.

    Args:
        orders: Where the variables are read from; nothing there means that no rank is wanted.
        preload: The modules, with commas between.
        module: What the rank runs.
        arguments: Its arguments.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for ranks; the launcher ends this process
    for name in preload.split(","):
        import_module(name)
    with open(orders, "rb") as file:
        content = file.read()
    if not content:
        return
    os.environ.clear()
    os.environ.update(json.loads(content))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _cause(exits: Sequence[Exit]) -> Exit | None:
    """Return the failure that all others come from; None if nothing failed."""
    causes = sorted((one for one in exits if one.is_cause), key=lambda one: one.status)  # killed ones first
    said = [one for one in causes if one.is_final]
    lost = [one for one in exits if one.status]
    stopped = {one.status for one in exits} - {0}  # servers end well when all workers have stopped
    if stopped and stopped <= {INTERRUPTED, PREEMPTED}:
        return None
    return next(iter(said or causes or sorted(lost, key=lambda one: not one.message)), None)


def _error_file(folder: Path, rank: int) -> Path:
    return folder / f"error-{rank}.json"


def _message(path: Path) -> str:
    try:
        content = json.loads(path.read_text())
        return str(content["message"]["message"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


@contextlib.contextmanager
def store_on_loopback() -> Iterator[TCPStore]:
    """Hold a store on the loopback."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port: int = listener.getsockname()[1]
        from torch.distributed import TCPStore  # takes a second

        store = TCPStore(
            "127.0.0.1",
            port,
            is_master=True,
            wait_for_workers=False,
            master_listen_fd=listener.detach(),
            use_libuv=True,
        )
        yield store
        del store


if __name__ == "__main__":
    stand_by(int(sys.argv[1]), *sys.argv[2:])
