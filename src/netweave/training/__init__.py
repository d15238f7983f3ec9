"""The training wing: the loop that runs a Job, with its data, update rules, ranks, boxes and checkpoints.

What is named here needs no torch, so that events can be shown and checkpoints looked at without it.
"""

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
)
from netweave.training.monitor import Monitor, ValueStatistics, Watched

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
