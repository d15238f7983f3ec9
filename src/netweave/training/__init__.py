"""Running a Job: the loop (``trainer``), its data, its checkpoints.

What is named here needs no torch, so that events can be shown and checkpoints looked at without it.
"""

from netweave.training.checkpoint import Checkpoint, latest, read_checkpoint, write_checkpoint
from netweave.training.events import Evaluated, Event, Saved, Shown, Stopped

__all__ = [
    "Checkpoint",
    "Evaluated",
    "Event",
    "Saved",
    "Shown",
    "Stopped",
    "latest",
    "read_checkpoint",
    "write_checkpoint",
]
