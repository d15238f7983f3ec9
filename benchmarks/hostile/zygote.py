"""Programs that read HDF5, forked from a process that has imported their libraries already.

Netweave starts one Python for each file of HDF5: 150 ms of imports before 5 ms of work. The fuzzer and the
tests run the same program with the same arguments, folder, limits and open sockets, but fork it from a
process that holds nothing except h5py and NumPy. The fuzzer measures it, and starts a Python, as Netweave
does, in each ``REAL_EVERY``-th case.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

REAL_EVERY = 256
MAX_MESSAGE = 1 << 16
PROGRAM = Path(__file__).with_name("zygote_program.py")


class Zygote:
    """The process that programs are forked from, and what those of a case have used.

    Attributes:
        seconds: Processor time of the programs of this case that have ended.
        total_seconds: That of all cases.
        max_bytes: Most memory of one of them.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._asking = threading.Lock()
        self._link: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.seconds = 0.0
        self.total_seconds = 0.0
        self.max_bytes = 0

    def next_case(self) -> None:
        """Forget what the programs of earlier cases used."""
        self.seconds, self.max_bytes = 0.0, 0

    def popen(
        self,
        words: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        pass_fds: Sequence[int] = (),
        **settings: Any,
    ) -> Forked | subprocess.Popen[bytes]:
        """Start a program: ``python -P -s PROGRAM ARGUMENT...``; a fork of this process starts a Python."""
        if os.getpid() != self._owner:
            return subprocess.Popen(words, cwd=cwd, pass_fds=pass_fds, **settings)
        with self._asking:
            if self._link is None:
                self._start()
        request = {"do": "start", "words": list(words[3:]), "cwd": str(cwd or "."), "fds": list(pass_fds)}
        return Forked(self, self.ask(request, pass_fds)["pid"])

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(  # run by path: importing this package would import Netweave
            [
                sys.executable,
                "-P",
                "-s",
                str(PROGRAM),
                str(theirs.fileno()),
            ],
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
        )
        theirs.close()
        self._link = ours

    def ask(self, request: dict[str, Any], fds: Sequence[int] = ()) -> dict[str, Any]:
        """Send a request with open files; return the answer."""
        assert self._link is not None
        with self._asking:
            socket.send_fds(self._link, [json.dumps(request).encode()], list(fds))
            answer: dict[str, Any] = json.loads(self._link.recv(MAX_MESSAGE))
        return answer

    def end(self) -> None:
        """End the process."""
        if self._link is not None and self._process is not None:
            self._link.close()
            self._process.kill()
            self._process.wait()


class Forked:
    """A program that was forked: as much of ``subprocess.Popen`` as the readers of HDF5 use."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self._zygote = zygote
        self.pid = pid
        self.returncode: int | None = None
        self._handle = os.pidfd_open(pid)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; count what it used."""
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._handle, select.POLLIN)
            if not waiting.poll(None if timeout is None else 1000 * timeout):
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
            os.close(self._handle)
            answer = self._zygote.ask({"do": "reap", "pid": self.pid})
            self.returncode = int(answer["status"])
            self._zygote.seconds += answer["seconds"]
            self._zygote.total_seconds += answer["seconds"]
            self._zygote.max_bytes = max(self._zygote.max_bytes, answer["max_bytes"])
        return self.returncode

    def kill(self) -> None:
        """End it, unless it has ended."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


@contextmanager
def forked_programs(*modules: ModuleType) -> Iterator[tuple[Zygote, Callable[[int], None]]]:
    """Let modules that read HDF5 fork their programs; give the zygote, and what announces a case."""
    zygote = Zygote()
    shim = SimpleNamespace(
        DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired, Popen=zygote.popen
    )

    def announce(number: int) -> None:
        zygote.next_case()
        shim.Popen = zygote.popen if number % REAL_EVERY else subprocess.Popen

    before = [vars(module)["subprocess"] for module in modules]
    for module in modules:
        vars(module)["subprocess"] = shim
    try:
        yield zygote, announce
    finally:
        for module, started_by in zip(modules, before, strict=True):
            vars(module)["subprocess"] = started_by
        zygote.end()
