"""Plans of a run on several devices: time, memory and bytes of each scheme, before it runs.

A scheme is pushed as a run pushes it, by the same code, to an engine that has a clock instead of threads. So
overlap and order are those of a run. What a stage takes is measured on this machine, where one worker
computes its part alone, or is what a table of devices says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from netweave.errors import UnsupportedError, UsageError
from netweave.graph.checks import known_shape
from netweave.graph.passes.partition import LayerCut, partition_plan
from netweave.graph.passes.partition.rules import is_stored
from netweave.job import Checkpoints, Cluster
from netweave.runtime.engine import ClockEngine, Price
from netweave.training.loading import make_nets
from netweave.training.partition_ranks import partition_of
from netweave.training.planned_worker import PlannedWorld, Scheme, Worker
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from netweave.graph import Graph
    from netweave.job import Job
    from netweave.training.device_profile import Device, Network

MOST_WORKERS_OF_CUTS = 64
"""Cuts by feature are planned for so many workers at most: each of them sends something to every other."""


@dataclass(frozen=True, slots=True)
class PlannedScheme:
    """The expected cost of a scheme.

    Attributes:
        scheme: The scheme.
        step_s: Seconds of an update.
        compute_s: Those in which a device computes passes and updates.
        memory: Bytes that each device holds at most.
        sent: Bytes that each device sends in an update.
        samples_per_s: Of all devices.
        efficiency: Speed, divided by that of one device and by the number of devices.
        fits: Whether the device has so much memory; None where that is not known.
    """

    scheme: Scheme
    step_s: float
    compute_s: float
    memory: int
    sent: int
    samples_per_s: float
    efficiency: float
    fits: bool | None = None


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plans of a run.

    Attributes:
        job: Name of the Job.
        batch: Samples of an update.
        network: The devices and their links.
        device: Name of the device of the table; empty where this machine was measured.
        alone: One device, which computes the whole batch.
        schemes: The schemes, the fastest that fits first.
        notes: Schemes that are not there, one sentence each.
    """

    job: str
    batch: int
    network: Network
    device: str
    alone: PlannedScheme
    schemes: tuple[PlannedScheme, ...]
    notes: tuple[str, ...] = ()


def dense_layers(
    graph: Graph, num_workers: int, num_rows: int, losses: Sequence[str]
) -> tuple[LayerCut, ...]:
    """Return the dense layers, and the layers between them, that can be cut by feature."""
    names: list[str] = []
    for key, nodes in graph.nodes_of().items():
        outputs = [known_shape(value) for node in nodes for value in node.outputs]
        is_flat = all(shape is not None and len(shape) == 2 for shape in outputs)
        is_dense = any(
            node.op_type in {"Gemm", "MatMul"} and node.inputs[1] is not None and is_stored(node.inputs[1])
            for node in nodes
        )
        if is_flat and (is_dense or names) and key in graph.layers:
            names.append(graph.layers[key].name)
    return _able(graph, names, num_workers, num_rows, losses)


def all_layers(graph: Graph, num_workers: int, num_rows: int, losses: Sequence[str]) -> tuple[LayerCut, ...]:
    """Return all layers that can be cut by feature."""
    names = [graph.layers[key].name for key in graph.nodes_of() if key in graph.layers]
    return _able(graph, names, num_workers, num_rows, losses)


def _able(
    graph: Graph, names: Sequence[str], num_workers: int, num_rows: int, losses: Sequence[str]
) -> tuple[LayerCut, ...]:
    cuts: tuple[LayerCut, ...] = ()
    for name in names:
        tried = (*cuts, LayerCut(name, 1))
        try:
            plan = partition_plan(graph, tried, num_workers=num_workers, num_rows=num_rows, wanted=losses)
        except (UnsupportedError, UsageError):
            continue
        if not plan.notes:
            cuts = tried
    return cuts


def plan_run(
    job: Job, network: Network, device: Device | None, *, tell: Callable[[str], None] = lambda text: None
) -> RunPlan:
    """Return what each scheme is expected to take, the fastest that fits first.

    Args:
        job: The Job, with the size of the whole batch.
        network: The devices.
        device: Which they are; None for this machine, which is measured.
        tell: Called with what is being done.

    Raises:
        UsageError: The batch cannot be split among so many devices, or the Job has no data.
    """
    train = job.phases["train"]
    if not train.data:
        raise UsageError(f"{job.name}: the training net reads no data, so its batch is unknown")
    batch, size = train.data[0].batch_size, network.size
    if batch < size:
        raise UsageError(
            f"{job.name}: a batch of {batch} cannot be split among {size} devices; take a batch of {size} or "
            "more, or --batch multiply, by which each device takes the batch of the file"
        )
    job = replace(job, phases={"train": train}, cluster=None, checkpoints=Checkpoints(at_end=False))
    found, notes = schemes_of(job, network)
    nets = make_nets(job.phases, seed=_SEED, device=torch.device("cpu"))
    tell("one device")
    one = replace(network, machines=1, each=1)
    alone = _planned(Worker(job, Scheme("one device"), one, nets), device, None)
    planned = []
    for scheme in found:
        tell(scheme.name)
        planned.append(_planned(Worker(job, scheme, network, nets), device, alone))
    planned.sort(key=lambda one: (one.fits is False, one.step_s))
    samples = batch * job.solver.accumulate
    return RunPlan(
        job.name, samples, network, device.name if device else "", alone, tuple(planned), tuple(notes)
    )


def schemes_of(job: Job, network: Network) -> tuple[list[Scheme], list[str]]:
    """Return the schemes by which devices can train a Job, and a sentence for each that they cannot.

    Args:
        job: The Job, with the size of the whole batch and its training phase alone.
        network: The devices.
    """
    train, size = job.phases["train"], network.size
    if size == 1:
        return [], []
    schemes, notes = [Scheme("batch")], []
    if network.machines > 1 and network.each > 1:
        schemes.append(Scheme("batch, two-level", exchange="two-level"))
    if size > MOST_WORKERS_OF_CUTS:
        notes.append(f"cuts by feature are planned for {MOST_WORKERS_OF_CUTS} devices at most")
        return schemes, notes
    rows, losses = train.data[0].batch_size, tuple(train.losses)
    dense, every = (find(train.graph, size, rows, losses) for find in (dense_layers, all_layers))
    for name, layers in (("hybrid", dense), ("feature", every)):
        if not layers or any(layers == one.layers for one in schemes):
            notes.append(f"no {name} scheme: no layers but those of another scheme can be cut by feature")
            continue
        scheme = Scheme(name, layers)
        try:
            cluster = Cluster(workers_per_group=size, layers=layers)
            partition_of(replace(job, cluster=cluster), TrainOptions(), PlannedWorld(network))  # raises
        except (UnsupportedError, UsageError) as error:
            notes.append(f"no {name} scheme: {error}")
        else:
            schemes.append(scheme)
    return schemes, notes


_SEED = 0


def _planned(worker: Worker, device: Device | None, alone: PlannedScheme | None) -> PlannedScheme:
    durations = worker.measured() if device is None else worker.from_table(device)
    step_s, sent = worker.clocked(durations)
    _, updater, ranks = worker.program(ClockEngine(lambda task: Price(0.0)), alone=False)
    elements = sum(tensor.numel() for tensor in updater.parameters.values())
    accumulate = worker.job.solver.accumulate
    compute_s = accumulate * sum((*durations.forward, *durations.backward)) + elements * durations.update_s
    memory = sum(worker.memory(0 if ranks is None else ranks.num_bytes))
    samples = worker.job.phases["train"].data[0].batch_size * accumulate
    speed = samples / step_s
    size = worker.network.size
    efficiency = 1.0 if alone is None else speed / alone.samples_per_s / size
    fits = None if device is None else memory <= device.memory
    return PlannedScheme(worker.scheme, step_s, compute_s, memory, sent, speed, efficiency, fits)
