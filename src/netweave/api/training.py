"""Reading Jobs from files, and training them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netweave.api.arguments import check_file, data_paths
from netweave.api.ranks import announcing_early_failure, device_of_rank
from netweave.api.running import need_torch, train_here
from netweave.errors import UsageError
from netweave.formats import read_job
from netweave.job import Job, JobOptions
from netweave.training.data.probe import probe
from netweave.training.parallel.devices import parse_devices
from netweave.training.parallel.environment import rank_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.events import Watch
    from netweave.training.monitor import Monitor


def load_job(
    solver: str | Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data: Mapping[str, str | Path] | str | Path | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    scale_l1: float = 0.0,
    allow_urls: Sequence[str] = (),
) -> Job:
    """Read a training configuration: ``solver.prototxt``, ``job.conf``, or a ``.cfg`` of Darknet's.

    Args:
        solver: The file.
        input_shapes: Input sizes by name, batch size first; the sizes of data layers come from the data.
        data: By phase (``train``, ``test``), the path of its records, instead of the path in its net; for
            Darknet, its ``.data`` file, or a folder in the form of Pascal VOC.
        stages: Stages of the training net, besides those in the file.
        level: Level of the training net, if not 0.
        scale_l1: For Darknet, the weight of an L1 penalty on the scales of batch normalisation, which makes
            channels that can be pruned.
        allow_urls: URLs, or beginnings of them, that the files may name for their records; by default a URL
            is opened only if ``data`` names it.

    Raises:
        SourceError: The solver, a net or its data cannot be read, or they do not match.
        UsageError: ``data`` names an unknown phase, or one that does not read records, or a file names a URL
            that is not allowed.
    """
    options = JobOptions(
        input_shapes={name: tuple(shape) for name, shape in (input_shapes or {}).items()},
        data=data_paths(data),
        stages=tuple(stages),
        level=level,
        scale_l1=scale_l1,
        allow_urls=tuple(allow_urls),
        probe=probe,
    )
    return read_job(check_file(solver, what="solver"), options)


@announcing_early_failure
def train(
    job: Job | str | Path,
    *,
    data: Mapping[str, Mapping[str, Any]] | None = None,
    resume: str | Path | bool = False,
    weights: Sequence[str | Path] = (),
    device: str | None = None,
    devices: str | None = None,
    precision: str = "f32",
    seed: int | None = None,
    threads: int | None = None,
    trace: str | Path | None = None,
    events: str | Path | None = None,
    plot: str | Path | None = None,
    keep: int | None = None,
    num_stages: int | None = None,
    memory: str | int | None = None,
    exchange: str = "overlapped",
    compression: str = "none",
    threshold: float | None = None,
    batch: str | None = None,
    sync_batch_norm: bool = True,
    slice_elements: int | None = None,
    timeout_s: float | None = None,
    monitor: Monitor | Sequence[str] | None = None,
    restarts: int = 0,
    watch: Watch | None = None,
) -> TorchNet:
    """Train a net and return it.

    With ``devices``, one process for each device is started, and all train one net together, as with
    ``netweave train --devices``; the module that calls this is not run again. A process that ``torchrun`` has
    started is one of several such ranks itself and joins the others.

    Ctrl-C writes a checkpoint and stops after the current iteration; a second Ctrl-C stops at once.

    Args:
        job: A Job, or a file as for ``load_job``.
        data: By phase (``train``, ``test``), arrays of all records by input, instead of the Job's own data.
        resume: A checkpoint, or Caffe's ``.solverstate``, to resume from; True for the latest complete one.
        weights: Weight files to start from, instead of the Job's.
        device: Torch's name of the device to compute on; the CPU by default.
        devices: Several devices of this machine, a process each: ``cpu:2``, or ``0,1`` for GPUs.
        precision: ``f32``, or ``bf16`` for convolutions and matrix products in bfloat16; parameters, their
            updates and losses stay in float32.
        seed: Random seed, instead of the Job's.
        threads: Number of decoder threads; None to choose it automatically.
        trace: File for a timeline in Chrome's trace format.
        events: Folder for TensorBoard event files.
        plot: File for a plot of loss, test results and learning rate, from the beginning of the run even
            after it was resumed.
        keep: Number of Netweave checkpoints to keep, >= 1; 3 by default.
        num_stages: Number of stages that the net is split into, each with its own tasks; the result is
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
            default.
        timeout_s: Seconds to wait for a rank; 60 by default.
        monitor: Values of the training net to look at: names of layers, values or parameters, or patterns
            with ``*``, every display interval; or a ``netweave.training.Monitor`` with its own interval.
            Their statistics and histograms are in ``ValuesSeen`` events and in the event files.
        restarts: How often the processes of ``devices`` are started again, from the last checkpoint, when one
            dies.
        watch: Called with each event of ``netweave.training.events``: on every rank, or, with ``devices``, in
            this process with those of the first rank.

    Raises:
        SourceError: A file cannot be read, or files do not match.
        UsageError: Torch is not installed, there is no such device, the Job cannot be run, or it does
            not fit in ``memory``; the message says what would.
        RunError: The loss became NaN or infinite, or a checkpoint cannot be written.
    """
    need_torch()
    from netweave.training.options import RankSettings, TrainOptions
    from netweave.training.parallel.plan import ExchangeSettings

    options = TrainOptions(
        data=data,
        resume=resume,
        precision=precision,
        seed=seed,
        threads=threads,
        trace=trace,
        events=events,
        plot=plot,
        keep=keep,
        num_stages=num_stages,
        memory=memory,
        monitor=monitor,
    )
    settings = RankSettings(
        exchange=ExchangeSettings(exchange, compression, threshold),
        batch=batch,
        sync_batch_norm=sync_batch_norm,
        slice_elements=slice_elements,
        timeout_s=timeout_s,
        restarts=restarts,
    )
    if devices is not None and device is not None:
        raise UsageError("device and devices both say where to compute; give only one")
    names = parse_devices(devices) if devices is not None else ()
    found = job if isinstance(job, Job) else load_job(job)
    if weights:
        files = tuple(str(file) for file in weights)
        found = replace(found, checkpoints=replace(found.checkpoints, weights=files))
    tell = watch or (lambda event: None)
    is_rank = rank_environment() is not None
    if restarts and len(names) < 2 and not is_rank:
        raise UsageError("restarts are for the processes of several devices; give devices, or no restarts")
    if len(names) > 1 and not is_rank:
        # not at the top: ranks run `python -m netweave.api.starting`, and Python warns of a module that its
        # package has imported before
        from netweave.api.starting import train_on

        return train_on(found, names, options, settings, tell)
    return train_here(found, options, settings, device_of_rank(names) if names else device, tell)
