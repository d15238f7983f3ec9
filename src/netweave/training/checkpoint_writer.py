"""Writing checkpoints beside the steps, and the lock of their prefix."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from netweave.errors import UsageError, WriteError
from netweave.files import checksums
from netweave.files.output_files import Replacement
from netweave.formats.registry import find_run_writer
from netweave.job import Checkpoints, RunState
from netweave.runtime.engine import Engine, Variable
from netweave.training.checkpoint_file import (
    Checkpoint,
    Origin,
    checkpoint_path,
    encode,
    last_generation,
    nested,
    prune,
)

KEPT = 3
"""So many of Netweave's own checkpoints are kept where nobody says."""


class CheckpointWriter:
    """Writes checkpoints on the engine's output lane, one after another.

    Args:
        checkpoints: Their names and kinds.
        engine: Where.
        keep: So many of the run's own checkpoints are kept.
        run: Name of the run.
    """

    def __init__(self, checkpoints: Checkpoints, engine: Engine, *, keep: int, run: str) -> None:
        self._checkpoints = checkpoints
        self._engine = engine
        self._keep = keep
        self._origin = Origin(run)
        self._files = Variable("checkpoint files")

    @property
    def run(self) -> str:
        """Name of the run."""
        return self._origin.run

    @contextlib.contextmanager
    def reserved(self) -> Iterator[None]:
        """Let no other run write checkpoints of the prefix while a block runs.

        Raises:
            UsageError: Another run writes there.
            WriteError: The folder of the checkpoints cannot be written.
        """
        checkpoints = self._checkpoints
        if not (checkpoints.interval or checkpoints.at_end):
            yield
            return
        folder = checkpoint_path(checkpoints.prefix, 0).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            raise WriteError(
                f"the folder {str(folder)!r}, for checkpoints {checkpoints.prefix!r}, cannot be written: "
                f"{error.strerror}. Give another prefix (snapshot_prefix) or make the folder writable"
            ) from error
        lock = folder / f"{Path(checkpoints.prefix).name}.lock"
        with exclusive(lock, f"checkpoints {checkpoints.prefix!r}"):
            yield

    def save(
        self,
        iteration: int,
        capture: Callable[[], Checkpoint],
        as_source: Callable[[Mapping[str, np.ndarray]], RunState] | None = None,
    ) -> tuple[str, ...]:
        """Begin to write everything as it is now; return the names of the files.

        Args:
            iteration: Number of updates that are done.
            capture: Returns a copy of what to write.
            as_source: Returns the run as its format has it, from its parameters; for files of that format.

        Raises:
            UsageError: The Job wants weights in a format that there is not.
            WriteError: The checkpoint before could not be written.
        """
        self.wait()
        prefix = self._checkpoints.prefix
        path = checkpoint_path(prefix, iteration)
        captured = capture()
        if not self._origin.generation:
            self._origin = replace(self._origin, generation=last_generation(prefix) + 1)
        checkpoint = replace(captured, origin=self._origin)
        foreign: dict[Path, Callable[[], bytes]] = {}
        if self._checkpoints.formats and as_source is not None:
            state = as_source(dict(nested(checkpoint.arrays, "param")))
            for suffix in self._checkpoints.formats:
                foreign |= dict(find_run_writer(suffix).load_training().files_of(state, suffix, prefix))
        self._engine.push(
            functools.partial(_write, path, checkpoint, foreign, prefix, self._keep),
            writes=[self._files],
            lane="output",
            name=f"checkpoint {iteration}",
        )
        return (str(path), *map(str, foreign))

    def wait(self) -> None:
        """Wait for what is being written.

        Raises:
            WriteError: It could not be.
        """
        self._engine.wait_for(self._files)


def _write(
    path: Path,
    checkpoint: Checkpoint,
    foreign: Mapping[Path, Callable[[], bytes]],
    prefix: str,
    keep: int,
) -> None:
    """Write a checkpoint and the files of other programs that belong to it: all of them, or none."""
    digests = {}
    with Replacement(path) as new:
        for file, make in foreign.items():
            content = make()
            digests[file.name] = hashlib.sha256(content).hexdigest()
            (new.folder / file.name).write_bytes(content)
        if digests:
            listing = new.folder / path.with_suffix(checksums.SUFFIX).name
            listing.write_bytes(checksums.checksum_lines(digests))
        (new.folder / path.name).write_bytes(encode(checkpoint))
    with contextlib.suppress(OSError):
        prune(prefix, keep, checkpoint.origin.run)


if sys.platform != "win32":
    import fcntl


@contextlib.contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file while a block runs; the system gives it up when the process dies, however it does.

    Where the file system has no locks, nothing is held.

    Args:
        path: The file, in a folder that is there; it is removed at the end.
        what: What is locked, in words for the message.

    Raises:
        UsageError: Another run holds it.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = _locked(path, what)
    try:
        yield
    finally:
        # removed before it is given up: whoever has opened it meanwhile finds its name gone, and tries anew
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path, what: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 1000).decode(errors="replace") or "one that has just begun"
            os.close(descriptor)
            raise UsageError(
                f"another run ({holder}) is writing {what}; wait until it has ended, or give this one "
                "another prefix (snapshot_prefix)"
            ) from error
        except OSError:  # no locks here, as on some network file systems
            return descriptor
        if _is_named(path, descriptor):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)


def _is_named(path: Path, descriptor: int) -> bool:
    """Return whether the name still leads to the file that is open."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
