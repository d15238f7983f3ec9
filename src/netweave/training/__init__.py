"""The training wing: the loop that runs a Job, with its data, update rules, ranks, boxes and checkpoints.

What is named here needs no torch, so that events can be shown and checkpoints looked at without it. Names are
loaded when first used: the command line imports ``training.parallel`` before it knows whether to train.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from netweave.training.checkpoint_file import Checkpoint, latest, read_checkpoint, write_checkpoint
    from netweave.training.events import (
        Ended,
        Evaluated,
        Event,
        Norms,
        NormsSeen,
        Note,
        Saved,
        Shown,
        Stopped,
        Updated,
        ValuesSeen,
        ValueStatistics,
    )
    from netweave.training.monitor import Monitor, Watched

__all__ = [
    "Checkpoint",
    "Ended",
    "Evaluated",
    "Event",
    "Monitor",
    "Norms",
    "NormsSeen",
    "Note",
    "Saved",
    "Shown",
    "Stopped",
    "Updated",
    "ValueStatistics",
    "ValuesSeen",
    "Watched",
    "latest",
    "read_checkpoint",
    "write_checkpoint",
]

_OF_CHECKPOINTS = frozenset({"Checkpoint", "latest", "read_checkpoint", "write_checkpoint"})
_OF_MONITOR = frozenset({"Monitor", "Watched"})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "checkpoint_file" if name in _OF_CHECKPOINTS else "monitor" if name in _OF_MONITOR else "events"
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)
