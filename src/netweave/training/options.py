"""The options of a run: one value, from the face that takes them to where each is used."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from netweave.errors import UsageError
from netweave.training.parallel.plan import ExchangeSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.training.monitor import Monitor


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """Options of a training run.

    Attributes:
        data: By phase (``train``, ``test``), arrays of all records by input, instead of the Job's own data.
        resume: A checkpoint, or Caffe's ``.solverstate``, to resume from; True for the latest complete one.
        weights: Weight files to start from, instead of the Job's.
        device: Torch's name of the device to compute on; the CPU by default.
        devices: Several devices of this machine, a process each: ``cpu:2``, or ``0,1`` for GPUs.
        precision: ``f32``, or ``bf16`` for convolutions and matrix products in bfloat16; parameters, their
            updates and losses stay in float32.
        seed: Random seed, instead of the Job's; a run that is resumed keeps its own.
        threads: Number of decoder threads, >= 1; None to choose it automatically.
        trace: File for a timeline in Chrome's trace format.
        events: Folder for TensorBoard event files.
        plot: File for a plot of loss, test results and learning rate, from the beginning of the run even
            after it was resumed.
        keep: Number of Netweave checkpoints to keep, >= 1; 3 by default.
        num_stages: Number of stages that the net is split into, >= 1, each with its own tasks; the result is
            bit-identical for any number. By default 1, or 16 on several ranks.
        memory: Memory limit of the run, on each rank: bytes, or a size such as ``4GB``. Backward then
            recomputes as few values as needed instead of keeping them; the result is bit-identical.
        exchange: How ranks exchange gradients: ``overlapped``, ``blocking``, ``prioritised``, ``owner``,
            ``owner-by-layer`` or ``two-level``.
        compression: Form in which they are sent: ``none``, ``fp16``, ``bf16`` or ``2bit``.
        threshold: What one 2-bit code stands for, such as 0.005; needed with ``2bit`` alone. Momentum and
            2-bit codes hardly go together (see the how-to on several devices).
        batch: Whether ranks ``split`` the Job's batch or ``multiply`` it; by default what its source does.
        sync_batch_norm: Whether batch normalisation takes the statistics of the whole batch; False for each
            rank's own part, which needs no communication in forward.
        slice_elements: Elements of a slice, the unit of exchange, a multiple of 64; chosen by the link by
            default. A run that is resumed keeps its own.
        timeout_s: Seconds to wait for a rank, > 0; 60 by default.
        monitor: Values of the training net to look at: names of layers, values or parameters, or patterns
            with ``*``, every display interval; or a ``netweave.training.Monitor`` with its own interval.
            Their statistics and histograms are in ``ValuesSeen`` events and in the event files.
        restarts: How often the processes of ``devices`` are started again, from the last checkpoint, when one
            dies, >= 0.

    Raises:
        UsageError: A number is out of its range, or there is no such exchange.
    """

    data: Mapping[str, Mapping[str, Any]] | None = None
    resume: str | Path | bool = False
    weights: Sequence[str | Path] = ()
    device: str | None = None
    devices: str | None = None
    precision: str = "f32"
    seed: int | None = None
    threads: int | None = None
    trace: str | Path | None = None
    events: str | Path | None = None
    plot: str | Path | None = None
    keep: int | None = None
    num_stages: int | None = None
    memory: str | int | None = None
    exchange: str = "overlapped"
    compression: str = "none"
    threshold: float | None = None
    batch: str | None = None
    sync_batch_norm: bool = True
    slice_elements: int | None = None
    timeout_s: float | None = None
    monitor: Monitor | Sequence[str] | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        for name, least in (("threads", 1), ("keep", 1), ("num_stages", 1), ("restarts", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise UsageError(f"{name} is {value}, expected at least {least}")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise UsageError(f"timeout_s is {self.timeout_s}, expected more than 0 seconds")
        _ = self.exchange_settings

    @property
    def exchange_settings(self) -> ExchangeSettings:
        """Settings of the gradient exchange.

        Raises:
            UsageError: A name is unknown, or they do not go together.
        """
        return ExchangeSettings(self.exchange, self.compression, self.threshold)

    @classmethod
    def of(cls, options: TrainOptions | None, settings: Mapping[str, Any]) -> TrainOptions:
        """Return options with some of them set anew by name.

        Raises:
            UsageError: There is no option of such a name.
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in settings if name not in known]
        if unknown:
            raise UsageError(f"train has no option {unknown[0]!r}; expected one of {', '.join(known)}")
        return replace(options or cls(), **settings)
