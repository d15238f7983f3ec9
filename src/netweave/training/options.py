"""What a caller says of a run: one value for the run itself, one for how several ranks share it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.training.parallel.plan import ExchangeSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.training.monitor import Monitor


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """How to run a Job; see ``netweave.train``.

    Attributes:
        data: By phase, arrays of all records by input, instead of the Job's own data.
        resume: A checkpoint to resume from; True for the latest complete one.
        precision: ``f32`` or ``bf16``.
        seed: Instead of the Job's.
        threads: Of decoding; None to choose the number automatically.
        trace: File for a timeline.
        events: Folder for event files.
        plot: File for a plot of the curves.
        keep: Checkpoints to keep; None for the usual number.
        num_stages: Stages of the net; None for the usual number.
        memory: Limit of memory.
        monitor: Values of the training net to look at; see ``netweave.train``.

    Raises:
        UsageError: A number is out of its range.
    """

    data: Mapping[str, Mapping[str, Any]] | None = None
    resume: str | Path | bool = False
    precision: str = "f32"
    seed: int | None = None
    threads: int | None = None
    trace: str | Path | None = None
    events: str | Path | None = None
    plot: str | Path | None = None
    keep: int | None = None
    num_stages: int | None = None
    memory: str | int | None = None
    monitor: Monitor | Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "keep", "num_stages"):
            _require_least(name, getattr(self, name), 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSettings:
    """How several ranks train one net.

    Attributes:
        exchange: How gradients are exchanged.
        batch: Whether ranks ``split`` the Job's batch or ``multiply`` it; None for what its source does.
        sync_batch_norm: Whether batch normalisation takes the statistics of the whole batch, or each rank
            those of its part.
        slice_elements: Elements of a slice; None for a number that fits the link.
        timeout_s: Seconds to wait for a rank; None for the usual number.
        restarts: How often all ranks are started again after one died.

    Raises:
        UsageError: A number is out of its range.
    """

    exchange: ExchangeSettings = field(default_factory=ExchangeSettings)
    batch: str | None = None
    sync_batch_norm: bool = True
    slice_elements: int | None = None
    timeout_s: float | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        _require_least("restarts", self.restarts, 0)
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s is {self.timeout_s}, expected more than 0 seconds")


def _require_least(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{name} is {value}, expected at least {least}")
