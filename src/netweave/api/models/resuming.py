"""Checkpoints of a fit: what is asked for, and the one that a fit goes on from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import UsageError
from netweave.job import Checkpoints

if TYPE_CHECKING:
    from netweave.training import Checkpoint


@dataclass(frozen=True, slots=True)
class FitCheckpoints:
    """The checkpoints that a fit writes and reads.

    Attributes:
        prefix: Path that the names of the files start with; None for no checkpoints.
        interval: Updates between two; None for one at the end of each epoch.
        keep: How many are kept; None for the last three.
        resume: The checkpoint to go on from; True for the latest that is whole, False for none.
    """

    prefix: str | Path | None = None
    interval: int | None = None
    keep: int | None = None
    resume: bool | str | Path = False

    def settings(self, batches_per_epoch: int) -> Checkpoints:
        """Return what a Job says of checkpoints."""
        if self.prefix is None:
            return Checkpoints(at_end=False)
        return Checkpoints(prefix=str(self.prefix), interval=self.interval or batches_per_epoch)

    def find(self) -> tuple[Path, Checkpoint] | None:
        """Return the checkpoint to go on from; None for a fit from the beginning.

        Raises:
            UsageError: There is none, or nobody has said where.
            ReadError: It is damaged, or is no checkpoint.
        """
        from netweave.training import latest, read_checkpoint

        if not self.resume:
            return None
        if not isinstance(self.resume, bool):
            path = Path(self.resume)
            return path, read_checkpoint(path)
        if self.prefix is None:
            raise UsageError("resume=True needs checkpoint_prefix, where the checkpoints are")
        found = latest(str(self.prefix))
        if found is None:
            raise UsageError(f"there is no checkpoint {self.prefix}_iter_*.checkpoint to go on from")
        return found
