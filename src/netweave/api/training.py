"""Reading Jobs from files, and training them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from netweave.api.arguments import check_file, data_paths
from netweave.api.jobs import announcing_early_failure, device_of_rank
from netweave.api.runs import need_torch, train_here
from netweave.errors import UsageError
from netweave.formats import read_job
from netweave.job import Job, JobOptions
from netweave.training.data.probe import probe
from netweave.training.parallel.devices import parse_devices
from netweave.training.parallel.environment import rank_environment
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.events import Watch


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
    options: TrainOptions | None = None,
    *,
    watch: Watch | None = None,
    **settings: Any,
) -> TorchNet:
    """Train a net and return it.

    With ``devices``, one process for each device is started, and all train one net together, as with
    ``netweave train --devices``; the module that calls this is not run again. A process that ``torchrun`` has
    started is one of several such ranks itself and joins the others.

    Ctrl-C writes a checkpoint and stops after the current iteration; a second Ctrl-C stops at once.

    Args:
        job: A Job, or a file as for ``load_job``.
        options: How to train it.
        watch: Called with each event of ``netweave.training.events``: on every rank, or, with ``devices``, in
            this process with those of the first rank.
        settings: Attributes of ``TrainOptions``, which are set on top of ``options``.

    Raises:
        SourceError: A file cannot be read, or files do not match.
        UsageError: Torch is not installed, there is no such option or device, the Job cannot be run, or it
            does not fit in ``memory``; the message says what would.
        RunError: The loss became NaN or infinite, or a checkpoint cannot be written.
    """
    need_torch()
    options = TrainOptions.of(options, settings)
    if options.devices is not None and options.device is not None:
        raise UsageError("device and devices both say where to compute; give only one")
    names = parse_devices(options.devices) if options.devices is not None else ()
    read_job = job if isinstance(job, Job) else load_job(job)
    if options.weights:
        files = tuple(str(file) for file in options.weights)
        read_job = replace(read_job, checkpoints=replace(read_job.checkpoints, weights=files))
    tell = watch or (lambda event: None)
    is_rank = rank_environment() is not None
    if options.restarts and len(names) < 2 and not is_rank:
        raise UsageError("restarts are for the processes of several devices; give devices, or no restarts")
    if len(names) > 1 and not is_rank:
        # not at the top: ranks run `python -m netweave.api.starting`, and Python warns of a module that its
        # package has imported before
        from netweave.api.starting import train_on

        return train_on(read_job, names, options, tell)
    device = device_of_rank(names) if names else options.device
    return train_here(read_job, replace(options, device=device), tell)
