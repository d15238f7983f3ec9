"""The content of checkpoints, writing them beside the steps, and the lock of their prefix."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from netweave.errors import UsageError, WriteError
from netweave.files import checksums
from netweave.files.output_files import Replacement
from netweave.formats.registry import find_run_writer, find_state_reader
from netweave.job import Checkpoints, FoundState, Job, RunState
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.node_memory import memories, to_array
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
from netweave.training.loading import load_weights
from netweave.training.optim import Updater

KEPT = 3
"""So many of Netweave's own checkpoints are kept where nobody says."""


@dataclass(frozen=True, slots=True)
class TrainState:
    """The mutable state of a run: its nets and its solver."""

    job: Job
    nets: Mapping[str, TorchNet]
    updater: Updater

    def capture(self, state: Mapping[str, Any], beside: Mapping[str, np.ndarray]) -> Checkpoint:
        """Return a copy of everything, with some JSON values and arrays beside it."""
        solver = self.updater.state_dict()
        arrays = {f"param:{key}": array for key, array in self.parameters().items()}
        for key, kept in solver["state"].items():
            arrays |= {f"solver:{name}:{key}": to_array(tensor) for name, tensor in kept.items()}
        for phase, net in self.nets.items():
            for name, memory in memories(net.module).items():
                kept = memory.capture()
                arrays |= {f"memory:{phase}:{name}:{key}": array for key, array in kept.items()}
        numbers = {name: solver[name] for name in ("iteration", "policy", "memory")}
        layout = self.updater.layout.to_json()
        return Checkpoint({**state, "solver": numbers, "layout": layout}, {**arrays, **beside})

    def restore(self, checkpoint: Checkpoint) -> None:
        """Go on where ``capture`` was called.

        Raises:
            UsageError: The checkpoint is of another net or solver.
        """
        arrays = dict(nested(checkpoint.arrays, "param"))
        present = self.parameters()
        wrong = [
            key
            for key in {**present, **arrays}
            if key not in present or key not in arrays or arrays[key].shape != present[key].shape
        ]
        if wrong:
            raise UsageError(f"the checkpoint belongs to another net: {', '.join(sorted(wrong)[:5])} differ")
        state: dict[str, dict[str, torch.Tensor]] = {key: {} for key in self.updater.state}
        for name, array in nested(checkpoint.arrays, "solver"):
            kind, _, key = name.partition(":")
            state.setdefault(key, {})[kind] = torch.from_numpy(array)
        self.updater.load_state_dict({**checkpoint.state["solver"], "state": state})
        for net in self.nets.values():
            for key in net.params:
                net.params[key] = torch.from_numpy(arrays[key])
        self._recall(checkpoint)

    def _recall(self, checkpoint: Checkpoint) -> None:
        arrays_of: dict[tuple[str, str], dict[str, np.ndarray]] = {}
        for path, array in nested(checkpoint.arrays, "memory"):
            phase, name, key = path.split(":", 2)
            arrays_of.setdefault((phase, name), {})[key] = array
        for phase, net in self.nets.items():
            for name, memory in memories(net.module).items():
                memory.restore(arrays_of.get((phase, name), {}))

    def parameters(self) -> dict[str, np.ndarray]:
        """Return copies of all arrays in the source's layouts."""
        return {key: to_array(tensor) for net in self.nets.values() for key, tensor in net.params.items()}

    def gradients(self) -> dict[str, np.ndarray]:
        """Return copies of the last gradients; zeros where there is none."""
        net = self.nets["train"]
        zeros = {key: np.zeros(tensor.shape) for key, tensor in net.params.items()}
        return zeros | {key: to_array(tensor) for key, tensor in net.grads.items()}

    # The state of the Job's source.

    def as_source(self, parameters: Mapping[str, np.ndarray]) -> RunState:
        """Return the run as the format of the Job's source has it.

        Args:
            parameters: Copies of all arrays.
        """
        store, updater = self.nets["train"].store, self.updater
        kept = {
            name: {key: to_array(store[key].as_source(own[name])) for key, own in updater.state.items()}
            for name in updater.rule.names
        }
        train = self.job.phases["train"]
        batch_size = train.data[0].batch_size if train.data else 0
        return RunState(
            train.graph,
            updater.iteration,
            updater.iteration * self.job.solver.accumulate * batch_size,
            parameters,
            kept,
            updater.policy.state(),
            self.gradients() if self.job.checkpoints.gradients else None,
        )

    def restore_foreign(self, path: Path) -> None:
        """Go on where the program of the Job's source, or a run here, wrote a solver's state.

        Raises:
            UsageError: No format has such a file.
            SourceError: The state or its weights cannot be read, are not as they were written, or are of
                another net or solver.
        """
        row = find_state_reader(path)
        if row is None:
            raise UsageError(f"{path}: is not a solver state that a run can resume from")
        checksums.require_as_written(path)
        updater = self.updater
        state: FoundState = row.load_training().read_state(
            path, self.job.phases["train"].graph, updater.rule.names
        )
        load_weights(self.job.phases, self.nets, state.weights)
        store = self.nets["train"].store
        with torch.no_grad():
            for name, arrays in state.kept.items():
                for key, own in updater.state.items():
                    store[key].as_source(own[name]).copy_(torch.from_numpy(arrays[key]))
        updater.iteration = state.iteration
        remembered = updater.policy.state()
        updater.policy.restore({name: n for name, n in state.policy.items() if name in remembered})


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
