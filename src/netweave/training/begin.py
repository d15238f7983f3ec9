"""The beginning of a run: checks of the Job, its seed, its name, and the checkpoint's settings."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.errors import UnsupportedError, UsageError
from netweave.runtime.backends.torch.device import check_bfloat16

if TYPE_CHECKING:
    from netweave.job import Job
    from netweave.training.checkpoint_file import Checkpoint
    from netweave.training.parallel.world import World

DTYPES: dict[torch.dtype, type[np.floating[Any]]] = {torch.float32: np.float32, torch.float64: np.float64}
"""The types of numbers to train in."""

PRECISIONS = ("f32", "bf16")
"""What convolutions and matrix products may be computed in."""

ALGORITHMS = ("bp", "bptt", "cd")
"""What gradients may be computed by: through time those of the unrolled graph, by contrastive divergence
those of the free energies in the training net."""


def check_can_train(job: Job, dtype: torch.dtype, precision: str, device: torch.device) -> None:
    """Refuse what no run can do, before anything is made.

    Raises:
        UsageError: The net has no loss, or precision or type are none that can be computed in.
        UnsupportedError: The Job wants an algorithm that there is not.
    """
    if job.algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise UnsupportedError(
            f"{job.name}: the algorithm {job.algorithm!r} is not supported, expected one of {known}"
        )
    if not job.phases["train"].losses:
        raise UsageError(f"{job.name}: the training net has no loss, so it cannot be trained")
    if precision not in PRECISIONS:
        raise UsageError(f"precision is {precision!r}, expected {' or '.join(PRECISIONS)}")
    if precision == "bf16":
        check_bfloat16(device)
    if dtype not in DTYPES:
        raise UsageError(f"cannot train in {dtype}, expected {', '.join(map(str, DTYPES))}")


def saved_slice_elements(checkpoint: Checkpoint | None) -> int | None:
    """Return the size of a slice in the run that goes on: sums over devices round by it."""
    layout = checkpoint.state.get("layout") if checkpoint else None
    return int(layout["slice_elements"]) if layout else None


def choose_seed(job: Job, asked: int | None, world: World | None) -> int:
    """Return the seed of a run: what is asked for, the Job's, or a fresh one, the same for all ranks."""
    wanted = job.seed if asked is None else asked
    if wanted is not None:
        return wanted
    fresh = secrets.randbits(31)
    return fresh if world is None else int(world.keep(lambda: fresh, "seed"))


def choose_run_name(world: World | None) -> str:
    """Return a name for a run that begins: a fresh one, the same for all ranks and restarts."""
    return secrets.token_hex(8) if world is None else world.run
