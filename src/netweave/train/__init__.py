"""Running a Job: the loop, its data, its checkpoints."""

from netweave.train.checkpoint import Checkpoint, latest, read_checkpoint, write_checkpoint
from netweave.train.events import Evaluated, Event, Saved, Shown, Stopped
from netweave.train.feeds import probe
from netweave.train.trainer import Trainer

__all__ = [
    "Checkpoint",
    "Evaluated",
    "Event",
    "Saved",
    "Shown",
    "Stopped",
    "Trainer",
    "latest",
    "probe",
    "read_checkpoint",
    "write_checkpoint",
]
