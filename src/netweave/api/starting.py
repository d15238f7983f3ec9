"""Training on several devices from Python: this process starts one rank for each, and waits for them."""

from __future__ import annotations

import os
import pickle  # noqa: TID251 - what ranks are told, in a folder of this run's own
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.api.jobs import launch
from netweave.api.runs import train_here
from netweave.errors import NetweaveError, PeerError, RunError, UsageError
from netweave.job import Job
from netweave.training.events import Event, Note, SentOutputs, Updated, ValuesSeen, Watch
from netweave.training.parallel.environment import (
    GROUP_LOST,
    PREEMPTED,
    leave_at_once,
    leave_error,
    rank_environment,
)

if TYPE_CHECKING:
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.watchers import TrainOptions

ORDER = "order.pickle"
RESULT = "arrays.npz"

STACK_BYTES = 512 << 20
"""Of the thread that packs a Job: a Graph is a chain of nodes, and each nests in the one before."""

DEPTH = 1_000_000

END = b""
"""Sent instead of an event when all ranks have ended."""

ACCEPT_PAUSE_S = 0.1
"""After a connection that was lost before it was made."""


def train_on(job: Job, devices: Sequence[str], options: TrainOptions, watch: Watch) -> TorchNet:
    """Train a Job on several devices of this machine, a process each; return the net.

    Args:
        job: The Job.
        devices: The device of each rank, as torch names it.
        options: How to run it.
        watch: Called with each event of the first rank.

    Raises:
        UsageError: The Job cannot be sent to other processes, or a device is not there.
        RunError: Ranks failed for good; the message names rank and cause.
    """
    with tempfile.TemporaryDirectory(prefix="netweave-") as name, _told(watch) as address:
        folder = Path(name)
        _give(folder, job, options, address)
        command = [sys.executable, "-m", "netweave.api.starting", str(folder)]
        paths = [path for path in sys.path if path]
        status = launch(
            command,
            devices,
            restarts=options.restarts,
            grace_s=options.grace_s,
            stop_signal=options.stop_signal,
            tell=_tell(watch),
            environment={"PYTHONPATH": os.pathsep.join(paths)},
        )
        _require_end(job, status)
        return _net_of(job, folder)


def _require_end(job: Job, status: int) -> None:
    """Do not go on after ranks that were ended from outside, and so left no arrays."""
    if status == 128 + signal.SIGINT:
        raise KeyboardInterrupt
    if status == PREEMPTED:
        raise SystemExit(PREEMPTED)
    if status:
        raise RunError(
            f"{job.name}: the ranks were ended before the run was over (exit status {status}); resume=True "
            "goes on from the last checkpoint"
        )


def _tell(watch: Watch) -> Any:
    return lambda text: watch(Note(text))


@contextmanager
def _told(watch: Watch) -> Iterator[tuple[Any, bytes]]:
    """Call ``watch`` with what a rank sends to the address that is given, with the key beside it."""
    key = secrets.token_bytes(32)
    errors: list[Exception] = []
    with Listener(None, authkey=key) as listener:

        def listen() -> None:
            while True:
                try:
                    connection = listener.accept()
                except (OSError, EOFError, AuthenticationError):
                    time.sleep(ACCEPT_PAUSE_S)  # that rank has died; the one that is started again comes too
                    continue
                with connection:
                    if not _pass_on(connection, watch, errors):
                        return

        thread = threading.Thread(target=listen, name="events of the ranks", daemon=True)
        thread.start()
        try:
            yield listener.address, key
        finally:
            with Client(listener.address, authkey=key) as last:
                last.send_bytes(END)
            thread.join()
        if errors:
            raise errors[0]


def _pass_on(connection: Connection, watch: Watch, errors: list[Exception]) -> bool:
    """Pass on events until the rank ends; say whether another rank may come after it.

    After an error of ``watch`` events are dropped; the run goes on, and the error is raised at its end.
    """
    while True:
        try:
            content = connection.recv_bytes()
        except (EOFError, OSError):
            return True
        if content == END:
            return False
        if errors:
            continue
        try:
            watch(pickle.loads(content))  # noqa: S301 - only a rank of this run has the key
        except Exception as error:  # noqa: BLE001 - the caller's own, raised where the caller is
            errors.append(error)


def _give(folder: Path, job: Job, options: TrainOptions, address: tuple[Any, bytes]) -> None:
    """Leave what ranks must know in a folder; arrays in files of their own, which all ranks map."""
    data = {
        phase: {name: _as_file(folder / f"{phase}-{number}.npy", array) for number, (name, array) in pairs}
        for phase, arrays in (options.data or {}).items()
        for pairs in [list(enumerate(arrays.items()))]
    }
    order = (job, replace(options, data=data or None), address)
    failed: list[BaseException] = []

    def pack() -> None:
        try:
            (folder / ORDER).write_bytes(pickle.dumps(order))
        except Exception as error:  # noqa: BLE001 - of somebody else's objects in the Job
            failed.append(error)

    _deeply(pack)
    if failed:
        raise UsageError(
            f"{job.name}: the Job cannot be sent to other processes ({failed[0]}); give the path of its "
            "solver instead, or start the script with torchrun"
        ) from failed[0]


def _deeply(function: Any) -> None:
    """Call a function on a thread with a large stack, which is used only as far as it is needed."""
    limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
    sys.setrecursionlimit(DEPTH)
    try:
        thread = threading.Thread(target=function, name="packing a Job")
        thread.start()
        thread.join()
    finally:
        sys.setrecursionlimit(limit)
        threading.stack_size(size)


def _as_file(path: Path, array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        return array
    np.save(path, array)
    return path


def _net_of(job: Job, folder: Path) -> TorchNet:
    """Return the net that the ranks have trained, on the CPU."""
    from netweave.runtime.backends.torch.device import find_device
    from netweave.training.loading import make_nets

    phases = {"train": job.phases["train"]}
    net = make_nets(phases, seed=0, device=find_device("cpu"))["train"]
    with np.load(folder / RESULT) as arrays:
        for key in net.params:
            net.params[key] = net.params[key].new_tensor(arrays[key])
    return net


# A rank.


def main(folder: Path) -> None:
    """Be one rank: train as the folder says, and leave the arrays there."""
    job, options, (address, key) = _order(folder)
    data = {
        phase: {name: _mapped(array) for name, array in arrays.items()}
        for phase, arrays in (options.data or {}).items()
    }
    environment = rank_environment()
    is_first = environment is not None and environment.rank == 0
    connection = Client(address, authkey=key) if is_first else None
    watch = (lambda event: None) if connection is None else partial(_send, connection)
    net = train_here(job, replace(options, data=data or None, device=None), watch)
    if is_first:
        arrays = {name: tensor.detach().cpu().numpy() for name, tensor in net.params.items()}
        np.savez(folder / RESULT, **arrays)


def _order(folder: Path) -> Any:
    """Return what the parent has left.

    Raises:
        UsageError: It names a function or class that is not there in this process.
    """
    try:
        return pickle.loads((folder / ORDER).read_bytes())  # noqa: S301 - its parent wrote it
    except (AttributeError, ImportError) as error:
        raise UsageError(
            f"the Job or its options name what other processes cannot import ({error}); define it in a "
            "module instead of the script, or start the script with torchrun"
        ) from error


def _mapped(array: Any) -> Any:
    return np.load(array, mmap_mode="r") if isinstance(array, Path) else array


def _send(connection: Connection, event: Event) -> None:
    """Send an event to the parent.

    A connection's own ``send`` would share the memory of tensors, which only processes that
    ``multiprocessing`` has started can open; so the bytes are made here.
    """
    connection.send_bytes(pickle.dumps(_plain(event)))


def _plain(event: Event) -> Event:
    """Return an event without what lives on a device."""
    if isinstance(event, Updated):
        return replace(event, outputs=SentOutputs(event.outputs.items()))
    if isinstance(event, ValuesSeen):
        return replace(event, values={name: _on_cpu(value) for name, value in event.values.items()})
    return event


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu() if hasattr(value, "detach") else value


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except NetweaveError as error:
        if not leave_error(str(error)):
            raise
        leave_at_once(GROUP_LOST if isinstance(error, PeerError) else 2)
