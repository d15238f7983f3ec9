"""Training runs, read from their folders: curves from event files, and checkpoints."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netweave.errors import UsageError
from netweave.installation import install_command

EVENTS = "*tfevents*"

CHECKPOINTS = (".checkpoint", ".caffemodel", ".caffemodel.h5", ".solverstate", ".solverstate.h5", ".params")
"""Suffixes of files that a run can resume from, or that hold weights."""

MAX_DEPTH = 4

_ITERATION = re.compile(r"(?:iter_|-|_)(\d+)\.[a-z0-9.]+$")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint file of a run.

    Attributes:
        name: Its path relative to the folder of the run.
        iteration: The number in its name; None if there is none.
        num_bytes: Its size.
        modified: When it was written, in seconds since 1970.
    """

    name: str
    iteration: int | None
    num_bytes: int
    modified: float


def find_runs(folder: str | Path) -> dict[str, float]:
    """Return the runs in a folder: relative paths of folders with event files, with the last change of each.

    Args:
        folder: The folder; it may itself be a run, which is named ``.``.
    """
    root = Path(folder)
    changed: dict[str, float] = {}
    for depth in range(MAX_DEPTH + 1):
        for file in root.glob("/".join(["*"] * depth + [EVENTS])):
            if file.is_file():
                name = file.parent.relative_to(root).as_posix()
                changed[name] = max(changed.get(name, 0.0), file.stat().st_mtime)
    return changed


def read_curves(run: str | Path) -> dict[str, list[tuple[int, float]]]:
    """Return the curves of a run by name: iteration and value of each point, in order of iteration.

    After a run was resumed from a checkpoint, the later event file replaces the earlier points from its first
    iteration on. A file that is still being written is read up to its last complete event.

    Raises:
        UsageError: TensorBoard's reader is not installed.
    """
    try:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
    except ImportError as error:
        raise UsageError(f"event files need the package tensorboard: {install_command('curves')}") from error
    curves: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for file in sorted(Path(run).glob(EVENTS)):
        begun: set[str] = set()
        for event in EventFileLoader(str(file)).Load():
            for value in event.summary.value:
                number = _scalar(value)
                if number is None:
                    continue
                curve = curves[value.tag]
                if value.tag not in begun:
                    begun.add(value.tag)
                    curves[value.tag] = curve = [point for point in curve if point[0] < event.step]
                curve.append((event.step, number))
    return dict(curves)


def find_checkpoints(run: str | Path) -> list[Checkpoint]:
    """Return the checkpoints in a run's folder, newest first."""
    folder = Path(run)
    files = [file for file in folder.rglob("*") if file.name.endswith(CHECKPOINTS) and file.is_file()]
    checkpoints = [
        Checkpoint(
            name=file.relative_to(folder).as_posix(),
            iteration=int(number[1]) if (number := _ITERATION.search(file.name)) else None,
            num_bytes=file.stat().st_size,
            modified=file.stat().st_mtime,
        )
        for file in files
    ]
    return sorted(checkpoints, key=lambda checkpoint: checkpoint.modified, reverse=True)


def _scalar(value: Any) -> float | None:
    """Return the number of a summary: TensorBoard's loader turns old scalars into tensors of one element."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if not value.HasField("tensor") or value.tensor.tensor_shape.dim:
        return None
    from tensorboard.util import tensor_util

    return float(tensor_util.make_ndarray(value.tensor))
