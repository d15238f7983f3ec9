"""Plans of a run on several devices: time, memory and bytes of each scheme, before it runs.

A scheme is pushed as a run pushes it, by the same code, to an engine that has a clock instead of threads. So
overlap and order are those of a run. What a stage takes is measured on this machine, where one worker
computes its part alone, or is what a table of devices says. The devices and their links are rows of that
table, or measured here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netweave.errors import UnsupportedError, UsageError
from netweave.graph.checks import known_shape
from netweave.graph.costs import node_cost
from netweave.graph.passes.partition import LayerCut, partition_plan
from netweave.graph.passes.partition.rules import is_stored
from netweave.job import Checkpoints, Cluster
from netweave.runtime.backends.torch.kernels import TriedKernels
from netweave.runtime.engine import ClockEngine, Price, Variable
from netweave.runtime.memory_plan import TrainingMemory, prepare, timeline
from netweave.training.loading import make_nets, trained
from netweave.training.optim import Updater
from netweave.training.optim.rule import make_rule
from netweave.training.parallel.network import Network
from netweave.training.parallel.plan import FORWARD, num_held, passes_of
from netweave.training.partition_ranks import partition_of
from netweave.training.pipeline import MicroBatch
from netweave.training.planned_worker import (
    CLOCKED,
    COUNTED,
    SHARE_OF_BYTES,
    SHARE_OF_PEAK,
    WARM,
    Durations,
    PlannedWorld,
    Scheme,
    Worker,
    durations_of_table,
    node_seconds,
)
from netweave.training.process import BATCHES
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.engine import Completion


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


MOST_WORKERS_OF_CUTS = 64
"""Cuts by feature are planned for so many workers at most: each of them sends something to every other."""


class PlannedPipeline:
    """All stages of a pipeline, as their processes would make them.

    Args:
        job: The Job, with the size of the whole batch.
        scheme: The scheme, with micro-batches.
        network: The devices, each a stage.
        nets: The net of each phase, whole; a trial trains them.

    Attributes:
        plan: Which stage has which layers.
        nets: The net of each stage.
        rows: Samples of a micro-batch.
    """

    def __init__(self, job: Job, scheme: Scheme, network: Network, nets: Mapping[str, TorchNet]) -> None:
        assert scheme.micro_batches is not None
        self.job, self.scheme, self.network, self.count = job, scheme, network, scheme.micro_batches
        self.options = TrainOptions(micro_batches=self.count)
        self.rows = job.phases["train"].data[0].batch_size // self.count
        self.nets: list[TorchNet] = []
        for stage in range(network.size):
            partition = partition_of(job, self.options, PlannedWorld(network, stage))
            assert partition is not None
            self.plan = partition.plans["train"]
            net = partition.nets(nets)["train"].train()
            net.set_whole_batch(MicroBatch(self.count))
            net.set_kernels(TriedKernels({}))
            self.nets.append(net)
        self._trained = [trained(net.graph, net, job.solver.gradient_mult) for net in self.nets]
        self.elements = [sum(one.tensor.numel() for one in own if one.lr_mult) for own in self._trained]

    def measured(self, stage: int) -> Durations:
        """Return the durations of a micro-batch in a stage, measured on this machine on its own."""
        clock = thread_time if torch.get_num_threads() == 1 else perf_counter
        net, given = self.nets[stage], self._given(stage)
        updater = Updater(self.job.solver, self._trained[stage], seed=_SEED)
        took: list[tuple[float, float, float]] = []
        for step in range(WARM + COUNTED):
            if net.draws is not None:
                net.draws.at(seed=_SEED, step=step, first=0, samples=self.rows)
            net.zero_grad()
            moments = [clock()]
            outputs = net.compute(given)
            moments.append(clock())
            roots = [value for value in outputs.values() if value.requires_grad]
            torch.autograd.backward(roots, [torch.ones_like(value) for value in roots])
            moments.append(clock())
            updater.step(0.0)
            moments.append(clock())
            took.append((moments[1] - moments[0], moments[2] - moments[1], moments[3] - moments[2]))
        forward, backward, update = (min(each) for each in zip(*took[WARM:], strict=True))
        return Durations((forward,), (backward,), update / max(1, self.elements[stage]), 0.0)

    def from_table(self, device: Device, stage: int) -> Durations:
        """Return the durations of a micro-batch in a stage on a device of the table."""
        nodes = [(node, self.rows) for node in self.nets[stage].graph.nodes]
        return durations_of_table(self.job, device, [node_seconds(device, nodes)])

    def _given(self, stage: int) -> dict[str, Tensor]:
        draw, fed = np.random.default_rng(0), {v.name for v in self.plan.graph.inputs}
        images, given = self.job.phases["train"].data[0].outputs[0], {}
        for value in self.nets[stage].graph.inputs:
            name, sizes = value.name or "", (known_shape(value) or ())[1:]
            shape = [self.rows, *(size or 1 for size in sizes)]
            array = np.zeros(shape) if name in fed and name != images else draw.normal(size=shape)
            dtype = np.dtype(np.float32) if value.dtype is None else value.dtype.numpy()
            given[name] = torch.from_numpy(array.astype(dtype))
            if name in self.plan.trained and given[name].is_floating_point():
                given[name].requires_grad_()
        return given

    def message_bytes(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the bytes of a micro-batch from stage to stage, and of the gradients that come back."""
        found: dict[tuple[int, int], tuple[int, int]] = {}
        for edge in self.plan.edges.values():
            pair, size = (edge.before.worker, edge.after.worker), 4 * edge.elements // self.count
            there, back = found.get(pair, (0, 0))
            found[pair] = there + size, back + size * (edge.value in self.plan.trained)
        return found

    def sent(self, stage: int) -> int:
        """Return the bytes that a stage sends in an update."""
        pairs = self.message_bytes().items()
        there = sum(sizes[0] for (sender, _), sizes in pairs if sender == stage)
        back = sum(sizes[1] for (_, receiver), sizes in pairs if receiver == stage)
        return self.count * (there + back)

    def clocked(self, durations: Sequence[Durations]) -> float:
        """Return the seconds of an update, by the durations of a micro-batch in each stage."""
        clock = _StageClock(self, durations)
        ends = [clock.push_update(step) for step in range(CLOCKED)]
        known_s = []
        for of_stages in ends:
            for end in of_stages:
                end.wait()
            known_s.append(clock.engine.now_s)
        clock.engine.close()
        return (known_s[-1] - known_s[1]) / (CLOCKED - 2)

    def memory(self, stage: int) -> int:
        """Return the bytes of a stage at most: what it always holds, and micro-batches on their way."""
        net = self.nets[stage]
        outputs = [value.name or "" for value in net.graph.outputs]
        step = timeline(
            replace(prepare(net.graph, batch=self.rows, training=True, losses=outputs), masked={})
        )
        live = step.live_bytes()
        ahead = next((n for n, (_, kind) in enumerate(step.steps) if kind == "backward"), len(live))
        kept = live[ahead - 1] if ahead else 0
        held = num_held(self.options.pipeline, stage, self.network.size, self.count)
        rule = make_rule(self.job.solver.kind, self.job.solver.settings)
        run = TrainingMemory(
            parameters=sum(int(net.store[key].tensor.nbytes) for key in net.store),
            solver=len(rule.names) * 4 * self.elements[stage],
            batches=BATCHES + self.count,
        )
        return run.fixed(net.graph, self.rows) + max(live, default=0) + (held - 1) * kept


class _StageClock:
    """The passes and messages of all stages of a pipeline, pushed to one engine with a clock."""

    def __init__(self, pipeline: PlannedPipeline, durations: Sequence[Durations]) -> None:
        self.engine = ClockEngine(lambda task: task.function() if task.function else Price(0.0))
        self._pipeline, self._durations = pipeline, durations
        self._messages = pipeline.message_bytes()
        self._arrived: dict[tuple[str, int, tuple[int, int]], Variable] = {}
        stages = range(pipeline.network.size)
        self._parameters = [Variable(f"parameters of stage {stage}") for stage in stages]
        held = (num_held(pipeline.options.pipeline, stage, len(stages), pipeline.count) for stage in stages)
        self._activations = [[Variable() for _ in range(count)] for count in held]
        for stage in stages:
            self.engine.add_lane(f"stage {stage}")

    def push_update(self, step: int) -> list[Completion[Any]]:
        """Push an update; return the ends of the stages' own updates."""
        pipeline, size = self._pipeline, self._pipeline.network.size
        order = pipeline.options.pipeline
        waiting = [passes_of(order, stage, size, pipeline.count) for stage in range(size)]
        pushed: set[tuple[int, str, int]] = set()
        while any(waiting):
            for stage, passes in enumerate(waiting):
                if passes and self._needs(stage, *passes[0]) <= pushed:
                    kind, number = passes.pop(0)
                    pushed.add((stage, kind, number))
                    self._push_pass(step, stage, kind, number)
        ends = []
        for stage, durations in enumerate(self._durations):
            price = Price(pipeline.elements[stage] * durations.update_s, 0.0)
            ends.append(self._push(price, (), [self._parameters[stage]], stage, f"update {step}"))
        return ends

    def _push(
        self, price: Price, reads: Sequence[Variable], writes: Sequence[Variable], stage: int, name: str
    ) -> Completion[Any]:
        return self.engine.push(lambda: price, reads, writes, lane=f"stage {stage}", name=name)

    def _needs(self, stage: int, kind: str, number: int) -> set[tuple[int, str, int]]:
        """Return the passes that a pass waits for."""
        if kind == FORWARD:
            return {(sender, kind, number) for sender, receiver in self._messages if receiver == stage}
        return {(receiver, kind, number) for sender, receiver in self._messages if sender == stage}

    def _push_pass(self, step: int, stage: int, kind: str, number: int) -> None:
        """Push a pass and what it sends; a pair of stages is that of the values, also for gradients."""
        is_forward = kind == FORWARD
        durations = self._durations[stage]
        come = [pair for pair in self._messages if pair[1 if is_forward else 0] == stage]
        reads = [self._arrived[kind, number, pair] for pair in come if (kind, number, pair) in self._arrived]
        made = Variable(f"{kind} {number} of stage {stage}")
        seconds = (durations.forward if is_forward else durations.backward)[0]
        for pair, sizes in self._messages.items():  # other threads do this, on the processor that computes
            if stage in pair and (size := sizes[0 if is_forward else 1]):
                seconds += self._pipeline.network.processor_s_of_message(size)
        name = f"{kind} {step}, micro-batch {number}"
        held = self._activations[stage]
        written = [made, held[number % len(held)]]
        self._push(Price(seconds, 0.0), [*reads, self._parameters[stage]], written, stage, name)
        for pair, (there, back) in self._messages.items():
            size = there if is_forward else back
            if pair[0 if is_forward else 1] == stage and size:
                way = self._arrived[kind, number, pair] = Variable(f"{kind} {number} of stages {pair}")
                price = self._pipeline.network.message(pair if is_forward else pair[::-1], size)
                self._push(price, [made], [way], stage, f"send {name}")


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
        stages: For a pipeline, the seconds of computation, the bytes held and the bytes sent of each stage.
    """

    scheme: Scheme
    step_s: float
    compute_s: float
    memory: int
    sent: int
    samples_per_s: float
    efficiency: float
    fits: bool | None = None
    stages: tuple[tuple[float, int, int], ...] = ()


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


def all_layers(
    graph: Graph, num_workers: int, num_rows: int, losses: Sequence[str], dim: int = 1
) -> tuple[LayerCut, ...]:
    """Return all layers that can be cut by feature, or by another dimension."""
    names = [graph.layers[key].name for key in graph.nodes_of() if key in graph.layers]
    return _able(graph, names, num_workers, num_rows, losses, dim)


def _able(
    graph: Graph, names: Sequence[str], num_workers: int, num_rows: int, losses: Sequence[str], dim: int = 1
) -> tuple[LayerCut, ...]:
    cuts: tuple[LayerCut, ...] = ()
    for name in names:
        tried = (*cuts, LayerCut(name, dim))
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
        if scheme.micro_batches is None:
            planned.append(_planned(Worker(job, scheme, network, nets), device, alone))
        else:
            planned.append(_planned_pipeline(PlannedPipeline(job, scheme, network, nets), device, alone))
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
        notes.append(f"cuts by feature or image are planned for {MOST_WORKERS_OF_CUTS} devices at most")
        return schemes, notes
    rows, losses = train.data[0].batch_size, tuple(train.losses)
    count = next(number for number in range(min(rows, 4 * size), 0, -1) if not rows % number)
    try:
        partition_of(job, TrainOptions(micro_batches=count), PlannedWorld(network))  # raises
    except (UnsupportedError, UsageError) as error:
        notes.append(f"no pipeline: {error}")
    else:
        schemes.append(Scheme("pipeline", micro_batches=count))
    dense, every = (find(train.graph, size, rows, losses) for find in (dense_layers, all_layers))
    bands = all_layers(train.graph, size, rows, losses, 2)
    for name, layers in (("hybrid", dense), ("feature", every), ("bands", bands)):
        if not layers or any(layers == one.layers for one in schemes):
            notes.append(f"no {name} scheme: no layers but those of another scheme can be cut so")
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


def _planned_pipeline(
    pipeline: PlannedPipeline, device: Device | None, alone: PlannedScheme
) -> PlannedScheme:
    stages = range(pipeline.network.size)
    durations = [
        pipeline.measured(stage) if device is None else pipeline.from_table(device, stage) for stage in stages
    ]
    step_s = pipeline.clocked(durations)
    costs = tuple(
        (
            pipeline.count * (one.forward[0] + one.backward[0]) + pipeline.elements[stage] * one.update_s,
            pipeline.memory(stage),
            pipeline.sent(stage),
        )
        for stage, one in zip(stages, durations, strict=True)
    )
    compute_s, memory, sent = (max(each) for each in zip(*costs, strict=True))
    speed = pipeline.rows * pipeline.count / step_s
    efficiency = speed / alone.samples_per_s / len(stages)
    fits = None if device is None else memory <= device.memory
    return PlannedScheme(pipeline.scheme, step_s, compute_s, memory, sent, speed, efficiency, fits, costs)
