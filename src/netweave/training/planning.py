"""Plans of a run on several devices: time, memory and bytes of each scheme, before it runs.

A scheme is pushed as a run pushes it, by the same code, to an engine that has a clock instead of threads. So
overlap and order are those of a run. What a stage takes is measured on this machine, where one worker
computes its part alone, or is what a table of devices says. The devices and their links are rows of that
table, or measured here.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from math import ceil, log2
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from netweave.errors import UnsupportedError, UsageError
from netweave.graph.checks import known_shape
from netweave.graph.costs import node_cost
from netweave.graph.passes.partition import LayerCut, partition_plan
from netweave.graph.passes.partition.rules import is_stored
from netweave.job import Checkpoints, Cluster
from netweave.runtime.engine import ClockEngine, Price
from netweave.training.loading import make_nets
from netweave.training.partition_ranks import partition_of
from netweave.training.planned_worker import SHARE_OF_BYTES, SHARE_OF_PEAK, PlannedWorld, Scheme, Worker
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.job import Job


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the table: figures of its maker's data sheet, and the share of them that nets reach.

    Attributes:
        name: Its name on the command line.
        multiply_adds_per_s: Float32 multiply-adds per second.
        bytes_per_s: Bytes per second from and to its memory.
        memory: Bytes.
        kernel_s: Seconds that a kernel takes at least.
        inside_bytes_per_s: Bytes per second and way between devices of a machine.
    """

    name: str
    multiply_adds_per_s: float
    bytes_per_s: float
    memory: int
    kernel_s: float = 8e-6
    inside_bytes_per_s: float = 10e9

    def node_s(self, node: ir.Node, num_bytes: int, batch: int) -> float:
        """Return the seconds of a node forward: what its multiply-adds take, or its bytes, if that is more.

        Args:
            node: The node.
            num_bytes: Of what it reads and writes.
            batch: Stands for the symbol of the batch.
        """
        multiply_adds = node_cost(node, batch=batch).multiply_adds
        reached = SHARE_OF_PEAK * self.multiply_adds_per_s
        return max(self.kernel_s, multiply_adds / reached, num_bytes / self.bytes_per_s / SHARE_OF_BYTES)


GIB = 2**30

DEVICES = {
    device.name: device
    for device in (
        # float32 without tensor cores, as torch multiplies by default; K80: one of its two processors
        Device("k80", 2.2e12, 240e9, 12 * GIB),
        Device("v100", 7.8e12, 900e9, 16 * GIB, inside_bytes_per_s=130e9),
        Device("a100", 9.7e12, 1555e9, 40 * GIB, inside_bytes_per_s=250e9),
        Device("h100", 33.5e12, 3350e9, 80 * GIB, inside_bytes_per_s=400e9),
        Device("h200", 33.5e12, 4800e9, 141 * GIB, inside_bytes_per_s=400e9),
    )
}
"""The makers' data sheets: NVIDIA K80, V100 SXM2, A100 SXM4, H100 SXM5 and H200 SXM5."""


def device_named(name: str) -> Device:
    """Return a device of the table.

    Raises:
        UsageError: There is none of this name.
    """
    if name not in DEVICES:
        raise UsageError(
            f"unknown device {name!r}, expected one of {', '.join(DEVICES)}; without a device, this machine "
            "is measured"
        )
    return DEVICES[name]


_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*(k|m|g|t)?bit(?:/s)?", re.IGNORECASE)
_FACTORS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}


def parse_rate(text: str) -> float:
    """Return the bytes per second of a link.

    Raises:
        UsageError: The text is no rate above 0.

    >>> parse_rate("1gbit"), parse_rate("200 Mbit/s")
    (125000000.0, 25000000.0)
    """
    match = _RATE.fullmatch(text.strip())
    rate = float(match[1]) * _FACTORS[(match[2] or "").lower()] / 8 if match else 0.0
    if not rate:
        raise UsageError(f"the link is {text!r}, expected bits per second and way such as 1gbit or 200mbit")
    return rate


def parse_machines(text: str) -> tuple[int, int]:
    """Return the number of machines, and of devices of each.

    Raises:
        UsageError: The text is not two numbers above 0.

    >>> parse_machines("2x4")
    (2, 4)
    """
    match = re.fullmatch(r"(\d+)x(\d+)", text.strip())
    machines, each = (int(match[1]), int(match[2])) if match else (0, 0)
    if not machines or not each:
        raise UsageError(f"machines are {text!r}, expected machines x devices of each, such as 2x4")
    return machines, each


PAYLOAD = 1448 / 1514
"""Share of a link's bits that are ours: of a packet of Ethernet the rest are headers (IP and TCP too)."""

LATENCY_S = 1e-4
"""A message between two machines of one network, with what wakes the process that waits for it."""


@dataclass(frozen=True, slots=True)
class Network:
    """The links of a run's devices.

    Attributes:
        machines: Machines.
        each: Devices of each.
        between: Bytes per second and way from a machine to the others, without headers.
        inside: Those from a device to the others of its machine.
        inside_latency_s: Seconds of a message there.
        processor_s_per_byte: Seconds of the device's own processor for each byte that it sends and receives.
        processor_s: Seconds of it for each collective.
        has_trees: Whether small tensors are summed in a tree, as by NCCL; gloo has a ring for all.
    """

    machines: int
    each: int
    between: float
    inside: float
    inside_latency_s: float = 2e-5
    processor_s_per_byte: float = 0.0
    processor_s: float = 0.0
    has_trees: bool = False

    @property
    def size(self) -> int:
        """Number of devices."""
        return self.machines * self.each

    def collective(self, kind: str, num_bytes: float, *, within: str = "") -> tuple[float, float]:
        """Return the seconds of a collective, and those of each device's processor.

        Args:
            kind: ``all-reduce`` (a ring), ``reduce`` or ``broadcast``.
            num_bytes: Bytes of the tensor.
            within: ``machine`` for the devices of one, ``leaders`` for one of each machine; all by default.
        """
        count = self._count(within)
        if count == 1:
            return 0.0, 0.0
        is_inside = within == "machine" or self.machines == 1
        speed, latency_s = (self.inside, self.inside_latency_s) if is_inside else (self.between, LATENCY_S)
        hops = ceil(log2(count)) if kind == "broadcast" else 2 * (count - 1)
        moved = self.sent(kind, num_bytes, within=within)
        seconds = moved / speed + hops * latency_s
        if self.has_trees:
            seconds = min(seconds, 2 * num_bytes / speed + 2 * ceil(log2(count)) * latency_s)
        return seconds, self.processor_s + self.processor_s_per_byte * moved

    def sent(self, kind: str, num_bytes: float, *, within: str = "") -> float:
        """Return the bytes that a device sends in a collective, or that sends the most; as ``collective``."""
        count = self._count(within)
        return num_bytes * (ceil(log2(count)) if kind == "broadcast" else 2 * (count - 1) / count)

    def _count(self, within: str) -> int:
        return {"machine": self.each, "leaders": self.machines}.get(within, self.size)

    def all_to_all_s(self, num_bytes: float) -> float:
        """Return the seconds in which a device sends so many bytes to all others, and receives as many."""
        outside = num_bytes * (self.size - self.each) / max(1, self.size - 1)
        inside_s = (num_bytes - outside) / self.inside
        latency_s = self.inside_latency_s if self.machines == 1 else LATENCY_S
        return max(inside_s, self.each * outside / self.between) + latency_s * min(self.size - 1, 16)


def measured_network(machines: int, each: int, bytes_per_s: float) -> Network:
    """Return the network of devices like this machine's processors, over links of a rate.

    Inside a machine, and for what a collective costs the processor, two ranks of gloo are measured, which
    sum a tensor over this machine's loopback.

    Args:
        machines: Machines.
        each: Devices of each.
        bytes_per_s: Of the link of a machine, as ``parse_rate`` returns them.
    """
    small_s, small_processor_s = _all_reduce(_SMALL_ELEMENTS)
    large_s, processor_s = _all_reduce(_LARGE_ELEMENTS)
    num_bytes = 4 * _LARGE_ELEMENTS
    return Network(
        machines,
        each,
        PAYLOAD * bytes_per_s,
        num_bytes / max(1e-9, large_s - small_s),
        small_s / 2,
        max(0.0, processor_s - small_processor_s) / num_bytes,
        small_processor_s,
    )


_SMALL_ELEMENTS, _LARGE_ELEMENTS, _REPEATS = 64, 1 << 21, 7


def _all_reduce(elements: int) -> tuple[float, float]:
    """Return the seconds in which two ranks on threads sum a tensor, and the processor's for each of them."""
    store, wall, processor = distributed.HashStore(), [], []
    started = threading.Barrier(2)

    def rank(number: int) -> None:
        options: Any = distributed.ProcessGroupGloo._Options()
        options._devices = [distributed.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        options._timeout = timedelta(seconds=60)
        group = distributed.ProcessGroupGloo(store, number, 2, options)
        tensor = torch.ones(elements)
        for _ in range(_REPEATS):
            started.wait()
            began, used = perf_counter(), process_time()
            group.allreduce([tensor]).wait()
            started.wait()
            if not number:
                wall.append(perf_counter() - began)
                processor.append((process_time() - used) / 2)

    threads = [threading.Thread(target=rank, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return min(wall), min(processor)


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
