"""Jobs: reading them from files, packing their records, and training them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from netweave.api.arguments import check_file, data_paths
from netweave.api.jobs import announcing_early_failure, device_of_rank
from netweave.api.runs import need_torch, train_here
from netweave.comparison.execution.memory_budget import free_bytes
from netweave.errors import UsageError
from netweave.formats import read_job
from netweave.formats.singa.cluster import read_cluster
from netweave.graph import Graph
from netweave.graph.passes.partition import PartitionPlan, partition_plan, require_layers
from netweave.graph.summary import bytes_text
from netweave.job import Cluster, Job, JobOptions
from netweave.options import Options
from netweave.runtime.engine.threaded import num_cores
from netweave.runtime.memory_plan import parse_bytes
from netweave.training.data import Source
from netweave.training.data.pack import pack as pack_source
from netweave.training.data.probe import probe
from netweave.training.data.source_names import Named, kind_of, open_named
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.transforms.geometry import Resize
from netweave.training.events import Note, Watch
from netweave.training.parallel.devices import parse_devices
from netweave.training.parallel.environment import rank_environment
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from netweave.runtime.backends.torch import TorchNet
    from netweave.training.cluster.topology import Topology
    from netweave.training.planning import RunPlan


def load_job(
    solver: str | Path,
    *,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data: Mapping[str, str | Path] | str | Path | None = None,
    stages: Sequence[str] = (),
    level: int = 0,
    allow_urls: Sequence[str] = (),
) -> Job:
    """Read a training configuration: ``solver.prototxt``, ``job.conf``, or a ``.cfg`` of Darknet's.

    Args:
        solver: The file.
        input_shapes: Input sizes by name, batch size first; the sizes of data layers come from the data.
        data: By phase (``train``, ``test``), the path of its records, instead of the path in its net: an
            LMDB, a list or a folder of images, whatever the net names. A path alone is for all phases; under
            ``mean``, a mean file. For Darknet, its ``.data`` file, or a folder in the form of Pascal VOC.
        stages: Stages of the training net, besides those in the file.
        level: Level of the training net, if not 0.
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
        allow_urls=tuple(allow_urls),
        probe=probe,
        kind_of=kind_of,
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
    if any(each.__module__.startswith("torch.nn") for each in type(job).__mro__):
        raise UsageError(
            "train takes a Job, or the file of a solver or configuration, not a module; for a module and a "
            "loop of your own there are netweave.exact.Exchange and netweave.exact.Checkpoint"
        )
    read_job = job if isinstance(job, Job) else load_job(job)
    if options.weights:
        files = tuple(str(file) for file in options.weights)
        read_job = replace(read_job, checkpoints=replace(read_job.checkpoints, weights=files))
    tell = watch or (lambda event: None)
    is_rank = rank_environment() is not None
    read_job, options = _clustered(read_job, options, names, tell)
    if options.restarts and len(names) < 2 and not is_rank:
        raise UsageError("restarts are for the processes of several devices; give devices, or no restarts")
    if len(names) > 1 and not is_rank:
        # not at the top: ranks run `python -m netweave.api.starting`, and Python warns of a module that its
        # package has imported before
        from netweave.api.starting import train_on

        return train_on(read_job, names, options, tell)
    device = device_of_rank(names) if names else options.device
    return train_here(read_job, replace(options, device=device), tell)


def _clustered(
    job: Job, options: TrainOptions, names: Sequence[str], tell: Watch
) -> tuple[Job, TrainOptions]:
    """Return a Job with the cluster that options say, and the options without it."""
    is_rank = rank_environment() is not None
    if options.cluster == AUTO:
        if is_rank or len(names) < 2:
            raise UsageError(
                "cluster 'auto' plans for several processes of this machine; give --devices cpu:2 "
                "(devices='cpu:2')"
            )
        return _by_plan(job, options, names, tell)
    if options.cluster is not None:
        cluster = load_cluster(options.cluster)
        if not cluster.layers and job.cluster is not None:  # the layers of a job.conf are cut as it says
            cluster = replace(cluster, layers=job.cluster.layers)
        job = replace(job, cluster=cluster)
        if not is_rank and len(names) < 2:
            cluster.require_processes(1)
    if job.cluster is not None and not job.cluster.is_alone and len(names) > 1:
        job.cluster.require_processes(len(names))
    return job, replace(options, cluster=None)


AUTO = "auto"
"""The cluster that a plan chooses."""


def _threads_of_each(num_processes: int) -> int:
    """Return the threads of each process of this machine: OMP_NUM_THREADS, or a share of the cores.

    OpenMP takes a number for each level of nested regions, of which the first counts: ``4,2``.
    """
    wanted = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    return max(1, num_cores() // num_processes)


def _by_plan(job: Job, options: TrainOptions, names: Sequence[str], tell: Watch) -> tuple[Job, TrainOptions]:
    """Return a Job and options by which the fastest scheme is trained that fits in the free memory.

    Raises:
        UsageError: Devices are no processors, options say a scheme too, or no scheme fits.
    """
    from netweave.runtime.backends.torch.device import computing_with
    from netweave.training.parallel.batch import batch_meaning

    if any(name != "cpu" for name in names):
        raise UsageError(
            f"cluster 'auto' measures the processors of this machine, and devices are {', '.join(names)}; "
            "for GPUs take a scheme of `netweave plan --device`"
        )
    if options.exchange != TrainOptions().exchange or options.micro_batches is not None:
        raise UsageError(
            "cluster 'auto' chooses exchange and micro_batches itself; leave them out, or leave 'auto' out"
        )
    with computing_with(_threads_of_each(len(names))):
        plan = plan_run(job, machines=f"1x{len(names)}", batch=options.batch)
    room = free_bytes() // len(names)
    best = next((one for one in plan.schemes if one.memory <= room), None)
    if best is None:
        least = min(one.memory for one in plan.schemes)
        raise UsageError(
            f"{job.name}: no scheme fits: each of {len(names)} processes would hold {bytes_text(least)} at "
            f"least, and {bytes_text(room)} are free for each; take a smaller batch, or more machines"
        )
    scheme = best.scheme
    others = ", ".join(f"{one.scheme.name} {one.step_s * 1e3:.1f}" for one in plan.schemes if one is not best)
    took = f"{scheme.name}, {best.step_s * 1e3:.1f} ms for an update"
    tell(Note(f"planned: {took} (others: {others or 'none'})"))
    cluster = Cluster(workers_per_group=len(names), layers=scheme.layers) if scheme.layers else None
    return replace(job, cluster=cluster), replace(
        options,
        exchange=scheme.exchange,
        micro_batches=scheme.micro_batches,
        batch=batch_meaning(job, options.batch),
        cluster=None,
    )


def load_cluster(cluster: Cluster | str | Path) -> Cluster:
    """Return worker groups and servers: as they are, or those of a file.

    Args:
        cluster: A Cluster, or a file with fields of SINGA's ``ClusterProto``, alone or in ``cluster { }``.

    Raises:
        SourceError: The file cannot be read, or holds an unknown field.
        UsageError: A number is out of its range, or the groups cannot be divided; the message has the line.
    """
    if isinstance(cluster, Cluster):
        return cluster
    return read_cluster(check_file(cluster, what="cluster"))


def plan_cluster(graph: Graph, cluster: Cluster | str | Path) -> Topology:
    """Return the roles of a cluster's processes, and which of a net's parameters each server holds.

    Args:
        graph: The training net.
        cluster: The workers and servers, or a file that says them.

    Raises:
        SourceError: The file cannot be read.
        UsageError: The settings cannot be, or a server would hold nothing.
    """
    from netweave.training.cluster.topology import plan_topology, trained_sizes

    return plan_topology(load_cluster(cluster), trained_sizes(graph))


def plan_partition(graph: Graph, cluster: Cluster | str | Path) -> PartitionPlan | None:
    """Return which worker computes what of a net, and what goes from worker to worker; None if nothing does.

    The plan is for the batch that the net declares, or else for one sample for each worker.

    Args:
        graph: The training net.
        cluster: The workers and the layers that they do not cut by batch, or a file that says them.

    Raises:
        SourceError: The file cannot be read.
        UsageError: The settings cannot be, or the net has no such layer.
        UnsupportedError: A layer cannot be cut so.
    """
    found = load_cluster(cluster)
    if not found.cuts:
        return None
    found.require_one_group()
    require_layers(found.cuts, [graph])
    workers = found.workers_per_group
    declared = [shape[0] for shape in graph.declared.values() if shape and shape[0]]
    rows = max(declared[0] if declared else 0, workers)
    return partition_plan(graph, found.cuts, num_workers=workers, num_rows=rows)


def plan_run(
    job: Job | str | Path,
    *,
    machines: str,
    link: str | None = None,
    device: str | None = None,
    batch: str | None = None,
    told: Callable[[str], None] = lambda text: None,
) -> RunPlan:
    """Return the time, memory and bytes of an update by each scheme of several devices, the fastest first.

    Nothing is trained. Without ``device``, this machine computes one worker's part of a few updates for each
    scheme, by itself; its processors stand for the devices.

    Args:
        job: A Job, or a file as for ``load_job``; its batch is that of an update, for all devices.
        machines: Machines and the devices of each, such as ``2x4``.
        link: Bits per second and way of each machine's link to the others, such as ``1gbit``; one machine
            needs none.
        device: A device of the table (``h100``); None for this machine's processors.
        batch: ``split`` or ``multiply``, as for ``train``; by default as the Job's source does.
        told: Called with the name of each scheme, before it is planned.

    Raises:
        SourceError: A file cannot be read.
        UsageError: Torch is not installed, a text says no machines or link, several machines have no link,
            there is no such device, or the batch cannot be split among so many devices.
        UnsupportedError: The Job cannot be trained on several devices.
    """
    need_torch()
    from netweave.training.parallel.batch import batch_meaning, with_batch
    from netweave.training.parallel.network import PAYLOAD, Network, measured_network
    from netweave.training.planning import device_named, parse_machines, parse_rate
    from netweave.training.planning import plan_run as plan_job

    number, each = parse_machines(machines)
    if link is None and number > 1:
        raise UsageError(f"{number} machines need a link between them; give its rate, such as link='1gbit'")
    rate = 0.0 if link is None else parse_rate(link)
    row = None if device is None else device_named(device)
    read_job = job if isinstance(job, Job) else load_job(job)
    whole = with_batch(read_job, batch_meaning(read_job, batch), number * each)
    if row is None:
        network = measured_network(number, each, rate)
    else:
        network = Network(number, each, PAYLOAD * rate, row.inside_bytes_per_s, has_trees=True)
    if link is None:
        network = replace(network, between=network.inside)
    return plan_job(whole, network, row, tell=told)


KINDS = {".rec": "recordio", ".h5": "hdf5", ".hdf5": "hdf5", ".kvfile": "kvfile"}
"""The format of a target by its suffix; any other target is an LMDB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackOptions(Options):
    """Options of ``pack``.

    Attributes:
        kind: ``lmdb``, ``recordio``, ``hdf5``, ``mnist`` or ``kvfile`` (SINGA); None to derive it from the
            target's name.
        read_as: Format of the source; None to derive it from the source's name.
        labels: A file of labels, if they are separate.
        root: The folder that paths in a list are relative to; by default the folder of the list.
        shape: Shape of a record, if the source has rows of numbers.
        resize: Height and width of all images, or one number for the shorter side.
        gray: Convert to one channel.
        shuffle: Write the records in random order.
        seed: Seed of the random order.
        encode: Encode pixels as image files with this suffix, ``.png`` or ``.jpg``.
        quality: JPEG quality, 1 to 100.
        split_size: Write several files of at most about this size, bytes or a text such as ``64MB``:
            ``train-00000.rec``, ``train-00001.rec``, ... for ``train.rec``. They are read as one under the
            target's name.
        mean: File to write the mean of all images to, as they are packed: for Caffe if its name ends in
            ``.binaryproto``, else for SINGA.
    """

    function: ClassVar[str] = "pack"

    kind: str | None = None
    read_as: str | None = None
    labels: str | None = None
    root: str | None = None
    shape: Sequence[int] = ()
    resize: Sequence[int] = ()
    gray: bool = False
    shuffle: bool = False
    seed: int = 0
    encode: str | None = None
    quality: int = 95
    split_size: str | int | None = None
    mean: str | Path | None = None

    @property
    def naming(self) -> Named:
        """The labels, folder, shape and color by which the source is read."""
        return Named(self.labels, self.root, tuple(self.shape), "gray" if self.gray else None)

    @property
    def resizing(self) -> Resize | None:
        """The change of each image's size.

        Raises:
            UsageError: There are more than two numbers, or one below 1.
        """
        sizes = self.resize
        if not sizes:
            return None
        if len(sizes) > 2 or min(sizes) < 1:
            raise UsageError(
                f"cannot resize to {'x'.join(map(str, sizes))}; give HEIGHTxWIDTH, or the shorter side"
            )
        return Resize(shorter=sizes[0]) if len(sizes) == 1 else Resize(height=sizes[0], width=sizes[1])


def pack(
    source: str | Path | Source | Sequence[np.ndarray],
    target: str | Path,
    options: PackOptions | None = None,
    **settings: Any,
) -> int:
    """Pack records into one file or database for training, or into several, and return their number.

    Image files are copied unchanged, unless they are resized or converted to gray.

    Args:
        source: A folder with one subfolder of images per class, a list of images (Caffe's ``.txt``, MXNet's
            ``.lst``), an LMDB, ``.rec``, ``.h5``, ``.npz``, ``.npy``, ``.csv``, idx or CIFAR file, local or
            remote (``s3://``); or arrays of images (N, C, H, W) and labels.
        target: File or folder to create; an existing one is never overwritten.
        options: How the source is read and the target written.
        settings: Attributes of ``PackOptions``, which are set on top of ``options``.

    Raises:
        UsageError: There is no such option or kind, the target exists, or the source is ambiguous.
        SourceError: A record cannot be read; nothing is left behind.
        WriteError: The target cannot be written; nothing is left behind.
    """
    place = check_file(target, what="target")
    options = PackOptions.of(options, settings)
    limit = options.split_size
    with _opened(source, options.read_as, options.naming) as records:
        return pack_source(
            records,
            place,
            options.kind or KINDS.get(place.suffix, "lmdb"),
            resize=options.resizing,
            gray=options.gray,
            shuffle=options.shuffle,
            seed=options.seed,
            encode=options.encode is not None,
            suffix=options.encode or ".png",
            quality=options.quality,
            mean=Path(options.mean) if options.mean else None,
            split_bytes=parse_bytes(limit) if isinstance(limit, str) else limit,
        )


def _opened(source: str | Path | Source | Sequence[np.ndarray], kind: str | None, said: Named) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, str | Path):
        return open_named(str(source), kind, said)
    if not isinstance(source, Sequence):
        raise UsageError(
            f"source is of type {type(source).__name__}, expected the name of a file or folder, or a list of "
            "arrays"
        )
    return Arrays(*source)
