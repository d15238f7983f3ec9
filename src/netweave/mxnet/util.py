"""``mx.util``: bits that scripts use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from netweave.mxnet.context import num_gpus


def makedirs(d: str) -> None:
    """Make a folder, and those above it."""
    Path(d).mkdir(parents=True, exist_ok=True)


def get_gpu_count() -> int:
    """Return how many GPUs torch sees."""
    return num_gpus()


def is_np_array() -> bool:
    """Return whether arrays have NumPy's semantics: never here."""
    return False


def use_np(func: Any) -> Any:
    """As MXNet has it: mx.np is not here."""
    from netweave.mxnet.base import missing

    raise missing("mx", "np")
