"""Checkpoints of a loop of the user's own, by time or updates, and when the machine is taken away."""

from __future__ import annotations

import contextlib
from collections import Counter, OrderedDict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch.nn import Module

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.job import Checkpoints
from netweave.training import checkpoint_file
from netweave.training.checkpoint_writer import KEPT, CheckpointWriter
from netweave.training.loop import FitCheckpoints, stopping
from netweave.training.parallel.environment import INTERRUPTED
from netweave.training.parallel.shards import SHARDS, check_promise, kernels
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.exact.exchange import Exchange


class Stateful(Protocol):
    """An object with a state, such as a module, an optimizer or a scheduler of PyTorch."""

    def state_dict(self) -> Any:
        """Return it."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Take it."""


class Checkpoint:
    """Checkpoints of a run, which it goes on from when it is started again.

    The latest one of the prefix, if there is one, is loaded at once. The first rank writes; all ranks must
    be able to read the file.

    The first Ctrl-C, SIGTERM or ``stop_signal`` at any rank lets all ranks finish the update, write a
    checkpoint and end: ``step`` raises ``SystemExit`` with the status 130, or 143 for a cluster's signals.

    Args:
        prefix: Path that the names of the files start with.
        exchange: The exchange of the run.
        every: Updates between two checkpoints, or a time such as ``60s``, ``10m`` or ``2h``.
        keep: How many are kept, >= 1.
        resume: ``"auto"`` for the latest checkpoint, or none; True for the latest; a file; False to begin
            anew.
        stop_signal: Name of a signal besides SIGTERM that says that the machine is taken away.
        other_bits: Whether to go on where the bits cannot be those of the run before: with another number of
            shards, on another processor or with another torch.
        objects: By name, what has a state: the module, its optimizer, a scheduler, and more.

    Attributes:
        resumed_from: The file that was loaded; None if the run begins.

    Raises:
        UsageError: There is no such checkpoint, it is of other objects, its bits cannot be kept, or another
            run writes there.
        ReadError: It is damaged.
    """

    is_over = True
    """``step`` itself ends the process."""

    def __init__(
        self,
        prefix: str | Path,
        exchange: Exchange,
        *,
        every: int | str,
        keep: int = KEPT,
        resume: bool | str | Path = checkpoint_file.RESUME_IF_ANY,
        stop_signal: str = "TERM",
        other_bits: bool = False,
        **objects: Stateful,
    ) -> None:
        self._exchange, self._objects = exchange, objects
        by_time = every if isinstance(every, str) else None
        options = TrainOptions(
            same_bits=exchange.shards.size,
            other_bits=other_bits,
            keep=keep,
            stop_signal=stop_signal,
            checkpoint_every=by_time,
        )
        self._interval, self._every_s = 0 if isinstance(every, str) else every, options.checkpoint_every_s
        if not isinstance(every, str) and every < 1:
            raise UsageError(f"every is {every}, expected at least 1 update, or a time such as 60s")
        modules = [one for one in objects.values() if isinstance(one, Module)]
        for module in modules:
            exchange.require_buffers(module)
        if not modules:
            raise UsageError("a checkpoint without a module keeps nothing of what is trained; give model=...")
        self.resumed_from: Path | None = None
        self._saved_at: int | None = None
        self._saved_s = perf_counter()
        run = self._resume(FitCheckpoints(prefix, resume=resume), options)
        checkpoints = Checkpoints(prefix=str(prefix), interval=1)
        self._writer = CheckpointWriter(checkpoints, exchange.engine, keep=keep, run=run or exchange.run)
        if exchange.is_first:
            exchange.enter(self._writer.reserved())
            exchange.enter(contextlib.ExitStack()).callback(self._writer.wait)
        exchange.enter(stopping(self, stop_signal))

    def _resume(self, checkpoints: FitCheckpoints, options: TrainOptions) -> str:
        """Load the checkpoint to go on from; return the name of its run."""
        exchange = self._exchange
        found = checkpoints.find() if exchange.is_first else None
        path = exchange.choose(str(found[0]) if found else None, "checkpoint")
        if path is None:
            return ""
        self.resumed_from = Path(path)
        checkpoint = found[1] if found else checkpoint_file.read_checkpoint(Path(path))
        if "exact" not in checkpoint.state:
            raise UsageError(f"{path}: is no checkpoint of netweave.exact")
        check_promise(options, checkpoint)
        states = unpacked(checkpoint.state["exact"], checkpoint.arrays, path)
        if states.keys() != self._objects.keys() | {"iteration"}:
            kept = ", ".join(name for name in states if name != "iteration")
            raise UsageError(f"{path}: is of {kept}; this run has {', '.join(self._objects)}")
        for name, one in self._objects.items():
            try:
                one.load_state_dict(states[name])
            except (KeyError, RuntimeError, ValueError) as error:
                reason = " ".join(str(error).split())
                raise UsageError(f"{path}: its {name} belongs to another one: {reason}") from error
        exchange.iteration = self._saved_at = int(states["iteration"])
        exchange.require_equal_values()
        return checkpoint.origin.run

    @property
    def stopped_by(self) -> int:
        """The exit status that asked this rank to stop; 0 if none did."""
        return self._exchange.asked_stop

    def stop(self, status: int = INTERRUPTED) -> None:
        """Ask all ranks to write a checkpoint and stop after the present update."""
        # told to all with the next update
        self._exchange.asked_stop = max(self._exchange.asked_stop, status)

    def step(self) -> None:
        """Write a checkpoint if one is due; call it after each update, the last thing of all.

        Raises:
            SystemExit: A rank was asked to stop; the checkpoint is written.
            WriteError: A checkpoint cannot be written.
        """
        exchange = self._exchange
        is_due = bool(self._interval) and exchange.iteration % self._interval == 0
        if is_due or exchange.saves or exchange.stop:
            self.save()
        if exchange.stop:
            exchange.close()
            raise SystemExit(exchange.stop)
        is_time = self._every_s is not None and perf_counter() - self._saved_s >= self._every_s
        exchange.asks_save = exchange.is_first and is_time

    def save(self) -> None:
        """Write a checkpoint now, unless this update has one; call it on all ranks.

        Raises:
            WriteError: One cannot be written.
        """
        exchange = self._exchange
        if self._saved_at == exchange.iteration:
            return
        self._saved_at, self._saved_s = exchange.iteration, perf_counter()
        if exchange.is_first:
            self._writer.save(exchange.iteration, self._capture)

    def _capture(self) -> checkpoint_file.Checkpoint:
        arrays: dict[str, Any] = {}
        states = {name: one.state_dict() for name, one in self._objects.items()}
        content = {"iteration": self._exchange.iteration, **states}
        rows = [[name, packed(value, arrays, name)] for name, value in content.items()]
        promise = {**kernels(), SHARDS: self._exchange.shards.size}
        return checkpoint_file.Checkpoint(
            {"exact": {"kind": "dict", "rows": rows}, "same bits": promise}, arrays
        )


_MAPPINGS: dict[str, type[Any]] = {"dict": dict, "ordered": OrderedDict, "counter": Counter}
_SEQUENCES: dict[str, type[Any]] = {"list": list, "tuple": tuple, "set": set}

MAX_DEPTH = 100
"""Values in values; no state has nearly as many, and each is a call."""


def packed(value: Any, arrays: dict[str, np.ndarray], path: str) -> Any:
    """Return a value as JSON; tensors and arrays in it are added to ``arrays``.

    Args:
        value: Of a state dictionary.
        arrays: Arrays by name.
        path: What the value is called in messages.

    Raises:
        UnsupportedError: It is of a type that a file cannot hold.
    """
    if value is None or type(value) in {bool, int, float, str}:
        return value
    for kind, of_kind in _MAPPINGS.items():
        if type(value) is of_kind:
            rows = [
                [packed(key, arrays, f"{path}: key {key!r}"), packed(one, arrays, f"{path}[{key!r}]")]
                for key, one in value.items()
            ]
            return {"kind": kind, "rows": rows}
    for kind, of_kind in _SEQUENCES.items():
        if type(value) is of_kind:
            rows = [packed(one, arrays, f"{path}[{number}]") for number, one in enumerate(value)]
            return {"kind": kind, "rows": rows}
    if isinstance(value, torch.Tensor) and value.layout is torch.strided:
        name = f"state:{len(arrays)}"
        tensor = value.detach().cpu().contiguous()
        # as bytes: NumPy does not know all types of torch
        arrays[name] = tensor.reshape(-1).view(torch.uint8).numpy().copy()
        dtype = str(value.dtype).removeprefix("torch.")
        return {"kind": "tensor", "name": name, "dtype": dtype, "shape": list(value.shape)}
    if isinstance(value, np.number | np.bool):
        return packed(value.item(), arrays, path)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return {"kind": "array", "of": packed(torch.from_numpy(value.copy()), arrays, path)}
    raise UnsupportedError(
        f"{path} is of type {type(value).__name__}, which a checkpoint cannot hold; expected tensors, "
        "numbers, texts, and lists or dictionaries of them"
    )


def unpacked(value: Any, arrays: Mapping[str, np.ndarray], place: str, depth: int = 0) -> Any:
    """Return what ``packed`` was given.

    Args:
        value: JSON.
        arrays: Arrays by name.
        place: The file, for messages.
        depth: In so many values.

    Raises:
        ReadError: It is nothing that ``packed`` returns.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    error = ReadError(f"is no checkpoint of netweave.exact: {value!r:.100} is no state", place=place)
    if depth > MAX_DEPTH or not isinstance(value, dict):
        raise error
    try:
        kind = value["kind"]
        if kind in _MAPPINGS:
            rows = [[unpacked(one, arrays, place, depth + 1) for one in row] for row in value["rows"]]
            return _MAPPINGS[kind](dict(rows))
        if kind in _SEQUENCES:
            return _SEQUENCES[kind](unpacked(one, arrays, place, depth + 1) for one in value["rows"])
        if kind == "array":
            return unpacked(value["of"], arrays, place, depth + 1).numpy()
        content = torch.from_numpy(np.array(arrays[value["name"]]))
        dtype = getattr(torch, value["dtype"])
        tensor = content.view(dtype) if len(content) else torch.empty(0, dtype=dtype)
        return tensor.reshape(value["shape"])
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as cause:
        raise error from cause
