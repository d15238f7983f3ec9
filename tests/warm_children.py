"""Children that read code, forked from one that has imported what PyTorch, Keras, JAX or Chainer need.

A test that reads code gets a child with the program, the arguments, the environment and the limits of the
real one. Where that would be guarded, this one is not, but Python opens only the files that the guard shows.
Tests about the guard carry the mark ``guarded`` and start the real child, as all do with FRESH_CHILDREN=1
(docs/decisions/0272).
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

FIRST_CHILD_S = 600.0
"""Time for a child to start, and for the process it is forked from to import the framework."""


class Nursery:
    """The process that children are forked from, in a session of tests; it ends with this one.

    Args:
        program: The program of the children, which Netweave runs in a guard.
    """

    def __init__(self, program: Path) -> None:
        self.program = program
        self._asked = threading.Lock()
        self._channel: socket.socket | None = None

    def fork(self, request: dict[str, Any], descriptors: Sequence[int]) -> Forked:
        """Return a child that was forked.

        Args:
            request: Its arguments, folder, environment, limits and files.
            descriptors: Its standard input and output.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # whole messages
        words = json.dumps(request | {"program": str(self.program)}).encode()
        with self._asked, theirs, tempfile.TemporaryFile() as file:
            file.write(words)
            file.flush()
            socket.send_fds(self._started(), [b"."], [theirs.fileno(), file.fileno(), *descriptors])
        return Forked(ours)

    def close(self) -> None:
        """End the process, if it was started."""
        if self._channel is not None:
            self._channel.close()
            self._process.wait()

    def _started(self) -> socket.socket:
        if self._channel is None:
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            package = self.program.parents[3]
            # one thread: forks would lack the others
            once = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
            environment = {
                "HOME": "/",
                "LANG": "C.UTF-8",
                "PATH": "/usr/bin:/bin",
                "PYTHONPATH": str(package),
            }
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-s", __file__, self.program.parent.name],
                    stdin=theirs,
                    env=environment | once,
                )
        return self._channel


class Forked:
    """A child that was forked, as ``subprocess.Popen`` is one that was started.

    Attributes:
        pid: The process that leads its session.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._waiting = threading.Lock()
        self._status: int | None = None
        channel.settimeout(FIRST_CHILD_S)
        self.pid = int(channel.recv(16) or b"0")
        assert self.pid, "the process that children are forked from has ended: see its error above"
        channel.settimeout(None)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status, negative for a signal.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        with self._waiting:
            if self._status is None:
                waiting = select.poll()
                waiting.register(self._channel, select.POLLIN)
                if not waiting.poll(None if timeout is None else 1000 * timeout):
                    raise subprocess.TimeoutExpired("a forked child", timeout or 0.0)
                self._status = int(self._channel.recv(16) or -signal.SIGKILL)
                self._channel.close()
            return self._status


@contextmanager
def forked_children(*programs: Path) -> Iterator[None]:
    """Fork the children of programs, until the context ends, where ``FORKS.are_on``.

    Args:
        programs: Those of the readers of code.
    """
    import pytest

    from netweave.files import persistent_child, sandbox

    nurseries = {program: Nursery(program) for program in programs}
    guarded = sandbox.prepared

    @dataclass(frozen=True, slots=True)
    class ForkedCommand(sandbox.GuardedCommand):
        request: Any = None
        nursery: Any = None

        def start(self, stdin: int = subprocess.DEVNULL) -> Any:
            with self.report.open("wb") as output, Path(os.devnull).open("rb") as nothing:
                read = nothing.fileno() if stdin == subprocess.DEVNULL else stdin
                return self.nursery.fork(self.request, [read, output.fileno()])

    @contextmanager
    def prepared(program, arguments, *, readable, place, trust, limits):
        given = {"readable": readable, "place": place, "limits": limits}
        if program not in nurseries or not FORKS.are_on or not (trust or sandbox.has_guard()):
            with guarded(program, arguments, trust=trust, **given) as command:
                yield command
            return
        seen = [*map(str, sandbox._visible([program, *readable])), "/dev", "/proc"]
        with guarded(program, arguments, trust=True, **given) as command:
            request = {
                "arguments": list(arguments),
                "folder": str(command.folder),
                "environment": dict(command.environment if trust else sandbox._environment(command.folder)),
                "limits": [limits.memory_bytes, limits.file_bytes],
                "readable": None if trust else seen,
            }
            fields = (command.words, command.folder, command.report, command.environment)
            yield ForkedCommand(*fields, is_guarded=False, request=request, nursery=nurseries[program])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "prepared", prepared)
        patch.setattr(persistent_child, "prepared", prepared)
        try:
            yield
        finally:
            for nursery in nurseries.values():
                nursery.close()


class Forks:
    """Whether children are forked in the test that runs."""

    are_on = False


FORKS = Forks()


def serve(framework: str) -> NoReturn:
    """Fork a child for each request, until nobody can ask any more."""
    gc.disable()
    warm = {
        "pytorch": _export_with_torch,
        "keras": _build_with_keras,
        "jax": _import_jax,
        "chainer": _import_shim,
    }
    warm[framework]()
    assert len(list(Path("/proc/self/task").iterdir())) == 1, (
        "a process with several threads cannot be forked"
    )
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    channel = socket.socket(fileno=0)
    while True:
        said, descriptors, _, _ = socket.recv_fds(channel, 16, 4)
        if not said:
            os._exit(0)  # clearing up after PyTorch takes seconds
        if os.fork() == 0:
            channel.detach()
            try:
                _lead(*descriptors)
            except BaseException:  # noqa: BLE001 - a fork must not go on as its parent
                traceback.print_exc()
            finally:
                os._exit(1)
        for descriptor in descriptors:
            os.close(descriptor)


def _build_with_keras() -> None:
    """Build a small model on PyTorch, which imports what Keras needs for it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(KERAS_BACKEND="torch", KERAS_HOME=folder)
        import keras

        keras.Sequential([keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3), keras.layers.Dense(2)])


def _import_jax() -> None:
    """Import JAX without its compiler's threads, which begin with the first array."""
    os.environ["JAX_PLATFORMS"] = "cpu"

    import netweave.formats.jax.lowering  # noqa: F401


def _import_shim() -> None:
    """Import what takes Chainer's place, and what a graph is made with."""
    import netweave.formats.chainer.tracing  # noqa: F401


def _export_with_torch() -> None:
    """Export a small net, which imports what PyTorch needs for it."""
    import torch

    from netweave.formats.pytorch.module import export, outputs_of

    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    )
    net(torch.zeros(1, 3, 8, 8))
    with tempfile.TemporaryDirectory() as folder:
        export(net, Path(folder, "net.onnx"), input_shapes={"input": (2, 3, 8, 8)})
    outputs_of(net, [])


def _lead(answer: int, request: int, *descriptors: int) -> None:
    """Fork the child into a session of its own, and say how it ended."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.lseek(request, 0, os.SEEK_SET)
    with os.fdopen(request, "rb") as file:
        asked = json.load(file)
    child = os.fork()
    if child == 0:
        os.close(answer)
        os._exit(_run(asked, *descriptors))
    for descriptor in descriptors:
        os.close(descriptor)
    with socket.socket(fileno=answer) as told:
        told.sendall(str(os.getpid()).encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        told.sendall(str(status).encode())
    os._exit(0)


def _run(asked: dict[str, Any], read: int, written: int) -> int:
    """Run the program as the guard would, and return its status."""
    for descriptor, number in ((read, 0), (written, 1), (written, 2)):
        os.dup2(descriptor, number)
    atexit._clear()  # what was registered before is not this program's
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    tempfile.tempdir = None
    memory, written_bytes = asked["limits"]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (written_bytes, written_bytes))
    if asked["readable"] is not None:
        _hide_all_but([asked["folder"], *asked["readable"]])
    sys.path[1:1] = os.environ["PYTHONPATH"].split(os.pathsep)[1:]  # the first is Netweave's
    _draw_anew()
    sys.argv = [asked["program"], *asked["arguments"]]
    status = 0
    try:
        runpy.run_path(asked["program"], run_name="__main__")
    except SystemExit as exit_:
        status = exit_.code if isinstance(exit_.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _draw_anew() -> None:
    """Give every child another seed, as each process that imports these has."""
    import random

    import numpy as np

    random.seed()
    np.random.seed()  # noqa: NPY002 - what code may draw from
    if (torch := sys.modules.get("torch")) is not None:
        torch.seed()


def _hide_all_but(given: Sequence[str]) -> None:
    """Let Python open only files that are given, or lie in what is, as the guard does for every program."""

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[0], str):
            path = os.path.realpath(arguments[0])
            if not any(path == known or path.startswith(f"{known}/") for known in given):
                raise FileNotFoundError(2, "No such file or directory", arguments[0])

    sys.addaudithook(hear)


if __name__ == "__main__":
    serve(sys.argv[1])
