"""Damage to what a run has written: flipped bits, cut ends and missing files; none may be loaded silently."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netweave import api
from netweave.errors import ReadError
from netweave.runtime.engine import SerialEngine
from netweave.training.checkpoint_file import latest
from netweave.training.trainer import Trainer
from netweave.training.watchers import TrainOptions
from tests.training.parallel import command

if TYPE_CHECKING:
    import random
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

STEPS, SNAPSHOT = 30, 10
KINDS = ("bit", "cut", "removed")


def prepare(folder: Path) -> None:
    """Make a run of two ranks that leaves three snapshots."""
    command.write(folder, steps=STEPS, snapshot=SNAPSHOT)
    status, output = command.finish(command.start(folder, "--devices", "cpu:2"))
    assert status == 0, output


def damage_once(folder: Path, draw: random.Random) -> tuple[str, str]:
    """Damage one file of the last snapshot, resume, repair it; return what was done, and what is wrong."""
    files = sorted((folder / "out").glob(f"net_iter_{STEPS}.*"))
    path, kind = draw.choice(files), draw.choice(KINDS)
    with _damaged(path, kind, draw):
        if path.suffix == ".checkpoint":
            fault = _resumes_before(folder, path, kind)
        else:
            fault = _is_refused(folder, path, kind)
    return f"{path.name}, {kind}", fault


@contextlib.contextmanager
def _damaged(path: Path, kind: str, draw: random.Random) -> Iterator[None]:
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
    if kind == "removed":
        path.unlink()
    else:
        path.write_bytes(whole[: draw.randrange(len(whole))] if kind == "cut" else changed)
    try:
        yield
    finally:
        path.write_bytes(whole)


def _resumes_before(folder: Path, path: Path, kind: str) -> str:
    """``--resume`` must take the snapshot before, and say that the last is damaged unless it is not there."""
    told: list[str] = []
    found = latest(str(folder / "out/net"), told.append)
    if found is None or found[1].state["iteration"] != STEPS - SNAPSHOT:
        return "another checkpoint was used"
    said = len(told) == 1 and str(path) in told[0]
    return "" if said == (kind != "removed") else f"said {told}"


def _is_refused(folder: Path, path: Path, kind: str) -> str:
    """Resuming from Caffe's own files must end with an error that names the damaged one."""
    state = folder / f"out/net_iter_{STEPS}.solverstate"
    if kind == "removed" and path.suffix == ".sha256":
        return ""  # what nobody has listed is let pass, as a file of Caffe's own
    job = api.load_job(folder / "solver.prototxt")
    job = replace(job, checkpoints=replace(job.checkpoints, at_end=False, interval=0))
    with SerialEngine() as engine:
        try:
            Trainer(job, TrainOptions(resume=state), engine=engine).close()
        except ReadError as error:
            return "" if path.stem in str(error) else f"said {error}"
        except Exception as error:  # noqa: BLE001 - what this counts
            return f"{type(error).__name__}: {error}"
    return "loaded silently"


def summary(rounds: Counter[str], faults: list[str]) -> dict[str, Any]:
    """Return the counts by file and kind."""
    return {"damaged": sum(rounds.values()), "by kind": dict(sorted(rounds.items())), "faults": len(faults)}
