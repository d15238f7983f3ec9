"""The first worker of a planned run: its program, pushed to an engine with a clock, its times and memory."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir
import torch
from torch import Tensor

from netweave.graph import OPSET
from netweave.graph.checks import known_shape
from netweave.graph.costs import num_bytes
from netweave.graph.passes.partition import Boxes, LayerCut, PartitionPlan
from netweave.graph.passes.partition.shardings import CONNECTIONS
from netweave.job import Cluster
from netweave.runtime.backends.torch.kernels import TriedKernels
from netweave.runtime.backends.torch.operator_table import find_lowering
from netweave.runtime.backends.torch.stages import cut
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.runtime.engine import ClockEngine, Price, ThreadedEngine
from netweave.runtime.memory_plan import Timeline, TrainingMemory, prepare, timeline
from netweave.training.loading import trained
from netweave.training.net_passes import NetPasses, Part, Where
from netweave.training.optim import Updater
from netweave.training.optim.rule import make_rule
from netweave.training.parallel.network import ELEMENTS_OF_ONE_MACHINE, PROBE_ELEMENTS, SLICES
from netweave.training.parallel.occupancy import Occupancy
from netweave.training.parallel.world import World
from netweave.training.partition_ranks import PartitionRanks, partition_of
from netweave.training.process import BATCHES
from netweave.training.rank_exchange import RankExchange, check_parts, stages_for
from netweave.training.step_program import StepProgram
from netweave.training.watchers import TrainOptions

if TYPE_CHECKING:
    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.stages import Stage
    from netweave.runtime.engine import Completion, Trace
    from netweave.runtime.engine.dependency_engine import Task
    from netweave.training.parallel.network import Network
    from netweave.training.partitioned import Partition
    from netweave.training.planning import Device


SHARE_OF_PEAK, SHARE_OF_BYTES = 0.5, 0.7
"""Shares of a data sheet's figures that convolutions, and passes over memory, are taken to reach."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way in which several devices train one net.

    Attributes:
        name: Its name.
        layers: The layers that are not cut by batch.
        exchange: How gradients are exchanged, one of ``EXCHANGES``.
        micro_batches: Parts of a batch that pass through a pipeline of devices; None where there is none.
    """

    name: str
    layers: tuple[LayerCut, ...] = ()
    exchange: str = "overlapped"
    micro_batches: int | None = None


class PlannedWorld(World):
    """The ranks of a run that is planned, seen from one of them: there are no others.

    Args:
        network: Their machines.
        rank: The one.
    """

    def __init__(self, network: Network, rank: int = 0) -> None:
        self.rank, self.size = rank, network.size
        self.device = torch.device("cpu")
        self.part = None
        self.occupancy = Occupancy()
        each = network.each
        self.machines = tuple(
            tuple(range(machine * each, (machine + 1) * each)) for machine in range(network.machines)
        )

    def group(self, name: str, ranks: Sequence[int] | None = None) -> Any:
        """Return no group: nothing is sent."""
        return None

    def require_all_equal(self, values: Mapping[str, Any], remedy: str) -> None:
        """Do nothing: the other ranks are as this one."""

    def watched(self, what: str) -> Any:
        """Return a context in which nothing can fail."""
        return nullcontext()


class _AbsentBatch(WholeBatch):
    """A whole batch of which only this part is computed: sums take the others as equal, and receive zeros."""

    def __init__(self, parts: int, *, is_synchronised: bool) -> None:
        self.parts = parts
        self.is_synchronised = is_synchronised

    def total(self, value: Tensor) -> Tensor:
        return value * self.parts

    def exchange(self, parts: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
        return [parts[0].new_zeros(size) for size in sizes]


class _Durations:
    """A trace that keeps how long tasks took, by name without the number of the step.

    Where torch computes with one thread, that is the time of its processor since the task before: what other
    programs take away is not the net's.
    """

    def __init__(self) -> None:
        self.of_task: dict[str, list[float]] = {}
        self._counts_processor = torch.get_num_threads() == 1
        self._before: dict[str, float] = {}

    def add_task(self, task: Task, ended_ns: int) -> None:
        """Note a task; called by the thread that has run it."""
        took_s, now_s = (ended_ns - task.started_ns) * 1e-9, thread_time()
        if self._counts_processor and task.thread in self._before:
            took_s = now_s - self._before[task.thread]
        self._before[task.thread] = now_s
        self.of_task.setdefault(_STEP.sub(r"\1", task.name, count=1), []).append(took_s)

    def close(self) -> None:
        """Do nothing: there is no file."""


_STEP = re.compile(r"^(\w+) \d+")
_SEED = 0
WARM, COUNTED = 3, 5
"""Steps of a trial: those before kernels are chosen and memory is there, and those that count."""


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds of one worker's computations.

    Attributes:
        forward: Of each stage.
        backward: Of each stage.
        update_s: Of an update, for each element.
        copy_s: Of a copy of an element of a gradient.
        processor: Share of the processor that they take, which also exchanges.
    """

    forward: tuple[float, ...]
    backward: tuple[float, ...]
    update_s: float
    copy_s: float
    processor: float = 1.0


class Worker:
    """The first worker of a scheme: its nets, stages and arrays, as its process would make them.

    Args:
        job: The Job, with the size of the whole batch.
        scheme: The scheme.
        network: The devices.
        nets: The net of each phase, whole; a trial trains them.
    """

    def __init__(self, job: Job, scheme: Scheme, network: Network, nets: Mapping[str, TorchNet]) -> None:
        size = network.size
        if scheme.layers:
            job = replace(job, cluster=Cluster(workers_per_group=size, layers=scheme.layers))
        self.job, self.scheme, self.network = job, scheme, network
        self.world = PlannedWorld(network) if size > 1 else None
        self.options = TrainOptions(exchange=scheme.exchange)
        self.partition: Partition | None = partition_of(job, self.options, self.world)
        self.graph = job.phases["train"].graph
        if self.partition is not None:
            nets = self.partition.nets(nets)
            self.graph = self.partition.graphs["train"]
        elif size > 1:
            check_parts(job, size)
        self.net: TorchNet = nets["train"]
        self.rows = -(-job.phases["train"].data[0].batch_size // size)
        self.net.set_whole_batch(_AbsentBatch(size, is_synchronised=self.options.sync_batch_norm))
        self.net.set_kernels(TriedKernels({}))
        self.stages: list[Stage] = cut(self.net, stages_for(self.world))

    @property
    def plan(self) -> PartitionPlan | None:
        """The plan of the training net; None where all layers are cut by batch."""
        return None if self.partition is None else self.partition.plans["train"]

    def program(self, engine: Any, *, alone: bool) -> tuple[StepProgram, Updater, RankExchange | None]:
        """Return the tasks of an update, made as a run makes them.

        Args:
            engine: Where they are pushed.
            alone: Leave out what is exchanged.
        """
        job = self.job
        ranks: RankExchange | None = None
        if self.world is not None:
            ranks = (
                RankExchange(self.world, self.options, engine=engine)
                if self.partition is None
                else PartitionRanks(self.partition, self.world, self.options, engine=engine)
            )
        parameters = trained(self.graph, self.net, job.solver.gradient_mult)
        if isinstance(ranks, PartitionRanks):
            updater = ranks.make_updater(job.solver, parameters, self._slice_elements(), seed=_SEED)
        else:
            updater = Updater(job.solver, parameters, seed=_SEED, slice_elements=self._slice_elements())
        where = Where(torch.device("cpu"), False, _SEED)
        passes = NetPasses(self.net, self.stages, updater.layout, engine=engine, where=where)
        used = None if alone else ranks
        program = StepProgram(job, passes, updater, engine=engine, ranks=used)
        if used is not None:
            used.exchange_slices(updater, job.phases["train"].graph, program.completing_stages())
        return program, updater, used

    def _slice_elements(self) -> int:
        if self.network.machines == 1:
            return ELEMENTS_OF_ONE_MACHINE
        speed = 4 * PROBE_ELEMENTS / self.network.collective("all-reduce", 4 * PROBE_ELEMENTS)[0]
        return next(elements for least, elements in SLICES if speed >= least)

    def measured(self) -> Durations:
        """Return the durations of this worker's part, measured on this machine on its own."""
        kept = _Durations()
        with ThreadedEngine() as engine:
            engine.push(partial(torch.set_num_threads, torch.get_num_threads())).result()
            program, updater, _ = self.program(engine, alone=True)
            for step in range(WARM + COUNTED):
                if step == WARM:
                    program.wait()
                    engine.trace_to(kept)  # type: ignore[arg-type]  # it is told what a Trace is
                self.push(program, step).result()
            program.wait()
        took = {name: min(each) for name, each in kept.of_task.items()}
        forward, backward = (self._of_stages(took, what) for what in ("forward", "backward"))
        elements = sum(tensor.numel() for tensor in updater.parameters.values())
        updates_s = sum(seconds for name, seconds in took.items() if name.startswith("update"))
        return Durations(forward, backward, updates_s / max(1, elements), _copy_s())

    def from_table(self, device: Device) -> Durations:
        """Return the durations of this worker's part on a device of the table."""
        rows = self._rows_of_values()
        forward = []
        for stage in self.stages:
            taken = [
                (node, next((rows.get(v.name or "", self.rows) for v in node.outputs), self.rows))
                for node in stage.nodes
            ]
            forward.append(node_seconds(device, taken))
        return durations_of_table(self.job, device, forward)

    def _of_stages(self, took: Mapping[str, float], what: str) -> tuple[float, ...]:
        """Return the seconds of a pass through each stage, the mean over the batches that are accumulated."""
        found = []
        for stage in self.stages:
            name = what if len(self.stages) == 1 else f"{what}, stage {stage.index}"
            same = [
                seconds for key, seconds in took.items() if key == name or key.startswith(f"{name}, batch")
            ]
            found.append(sum(same) / len(same))
        return tuple(found)

    def push(self, program: StepProgram, step: int, part: Part | None = None) -> Completion[Any]:
        """Push an update; return what is known when its loss is.

        Args:
            program: Of ``program``.
            step: Updates done before.
            part: The batch; that of the worker by default.
        """
        part = self.part if part is None else part
        result = program.push(step, part)
        for number in range(1, self.job.solver.accumulate):
            result = program.push(step, replace(part, number=number, adds=True))
        program.push_updates(step)
        return result

    @cached_property
    def part(self) -> Part:
        """A batch of this worker: random images, labels of zero."""
        draw = np.random.default_rng(0)
        images = self.job.phases["train"].data[0].outputs[0]
        inputs = {}
        for value in self.graph.inputs:
            shape = [self.rows, *(size or 1 for size in (known_shape(value) or ())[1:])]
            array = draw.normal(size=shape) if value.name == images else np.zeros(shape)
            dtype = np.dtype(np.float32) if value.dtype is None else value.dtype.numpy()
            inputs[value.name or ""] = torch.from_numpy(array.astype(dtype))
        return Part(0, inputs, (), 0, self.rows)

    def _rows_of_values(self) -> dict[str, int]:
        """Return the rows of each value of this worker: its own samples, or those of the whole batch."""
        plan = self.plan
        if plan is None:
            return {}
        whole = plan.num_rows
        rows = {
            name: self.rows if sharding.kind == "batch" else whole
            for name, sharding in plan.shardings.items()
        }
        for edge in plan.edges.values():
            rows[f"{edge.value}/{edge.op_type}"] = self.rows if edge.after.kind == "batch" else whole
        return rows

    def connections(self) -> dict[str, tuple[float, int]]:
        """Return seconds and sent bytes of each connection, by the value that it makes."""
        plan = self.plan
        found: dict[str, tuple[float, int]] = {}
        if plan is None:
            return found
        values = plan.graph.values()
        for edge in plan.edges.values():
            value = values[edge.value]
            before, after = plan.boxes(value, edge.before), plan.boxes(value, edge.after)
            there, back = 4 * _sent(before, after), 4 * _sent(after, before)
            name = f"{edge.value}/{edge.op_type}"
            seconds, sent = found.get(name, (0.0, 0))  # of another halo of the value
            found[name] = (seconds + self.network.all_to_all_s(max(there, back)), sent + there)
        return found

    def clocked(self, durations: Durations, *, trace: Trace | None = None) -> tuple[float, int]:
        """Return the seconds of an update, and the bytes that this worker sends in one.

        Args:
            durations: What its stages take.
            trace: Where to note the tasks.
        """
        prices = _Prices(self, durations)
        engine = ClockEngine(prices, trace=trace)
        program, updater, _ = self.program(engine, alone=False)
        prices.elements = [sum(span.stop - span.start for span in spans) for spans in updater.layout.slices]
        no_batch = Part(0, {}, (), 0, self.rows)
        results = [self.push(program, step, no_batch) for step in range(CLOCKED)]
        known_s = []
        for result in results:
            result.wait()
            known_s.append(engine.now_s)
        engine.close()
        return (known_s[-1] - known_s[1]) / (CLOCKED - 2), prices.sent // CLOCKED

    def memory(self, exchange: int) -> tuple[int, int]:
        """Return the bytes that this worker always holds, and those of a step at most.

        Args:
            exchange: Those that gradients are exchanged in.
        """
        graph, rows = self.graph.clone(), self._rows_of_values()
        if rows:
            for name, value in graph.values().items():
                if value.shape is not None and len(value.shape) and not isinstance(value.shape[0], int):
                    value.shape = value.shape.copy()
                    value.shape[0] = rows.get(name, self.rows)
        phase = self.job.phases["train"]
        stages = [{node.name for node in stage.nodes} for stage in self.stages]
        of_graph = [[node for node in graph.nodes if node.name in names] for names in stages]
        net = prepare(
            graph,
            batch=self.rows,
            training=True,
            losses=phase.losses,
            stages=of_graph if len(of_graph) > 1 else (),
        )
        rule = make_rule(self.job.solver.kind, self.job.solver.settings)
        held = sum(int(self.net.store[key].tensor.nbytes) for key in self.net.store)
        is_trained = [one for one in trained(self.graph, self.net) if one.lr_mult]
        solver = len(rule.names) * sum(int(one.tensor.nbytes) for one in is_trained)
        run = TrainingMemory(
            parameters=held,
            solver=solver,
            batches=BATCHES,
            accumulate=self.job.solver.accumulate,
            exchange=exchange,
        )
        step = self._peak(timeline(replace(net, masked={}))) + self._kept_for_statistics(rows)
        return run.fixed(graph, self.rows), step

    def _kept_for_statistics(self, rows: Mapping[str, int]) -> int:
        """Return the bytes that normalisation by the statistics of all workers keeps beyond its own input.

        It keeps the differences from the mean twice (``whole_batch.mean_and_variance``), and no input.
        """
        if self.network.size == 1 or not self.options.sync_batch_norm:
            return 0
        norms = (node for node in self.graph.nodes if node.op_type == "BatchNormalization")
        by_batch = (
            v for node in norms for v in node.outputs[:1] if rows.get(v.name or "", self.rows) == self.rows
        )
        return sum(num_bytes(value, self.rows) for value in by_batch)

    def _peak(self, step: Timeline) -> int:
        """Return the most bytes of a step; gradients of what it alone holds are divided in a copy."""
        live = step.live_bytes()
        peaks = [max(live, default=0)]
        if self.partition is not None:
            for buffer in step.buffers:
                key = buffer.name.removesuffix(": gradient")
                if buffer.kind == "parameter gradient" and not self.partition.holding(key).is_shared:
                    peaks.append(live[buffer.first] + buffer.num_bytes)
        return max(peaks)


def node_seconds(device: Device, nodes: Sequence[tuple[ir.Node, int]]) -> float:
    """Return the seconds of nodes forward on a device of the table, each with its rows."""
    return sum(
        device.node_s(
            node, sum(num_bytes(value, rows) for value in (*node.inputs, *node.outputs) if value), rows
        )
        for node, rows in nodes
    )


def durations_of_table(job: Job, device: Device, forward: Sequence[float]) -> Durations:
    """Return the durations of a device of the table: backward takes twice as long as forward."""
    rule = make_rule(job.solver.kind, job.solver.settings)
    element_s = 4 / device.bytes_per_s / SHARE_OF_BYTES
    touched = 3 + 2 * len(rule.names)  # parameter, gradient and state are read, all but the gradient written
    backward = tuple(2 * seconds for seconds in forward)
    return Durations(tuple(forward), backward, touched * element_s, 2 * element_s, processor=0.0)


def _sent(before: Boxes, after: Boxes) -> int:
    """Return the elements that the first worker sends to others."""
    return sum(
        piece.elements
        for receiver in range(1, len(before.rows))
        for piece in before.pieces(0, after, receiver)
    )


CLOCKED = 6
"""Updates that are simulated; those in the middle count."""

_COPIED_ELEMENTS = 1 << 20


def _copy_s() -> float:
    """Return the seconds of the copy of an element of a gradient."""
    source, target = torch.ones(_COPIED_ELEMENTS), torch.empty(_COPIED_ELEMENTS)
    times = []
    for _ in range(7):
        began = thread_time()
        torch.mul(source, 0.5, out=target)
        times.append(thread_time() - began)
    return min(times) / _COPIED_ELEMENTS


_TASK = re.compile(r"(begin )?(\S+) \d+(?:, (?:stage|slices?) (\d+)(?: to (\d+))?)?")


class _Prices:
    """The price of each task of an update.

    Args:
        worker: The worker.
        durations: What its stages take.

    Attributes:
        elements: Of each slice.
        sent: Bytes sent so far.
    """

    def __init__(self, worker: Worker, durations: Durations) -> None:
        self._network, self._durations = worker.network, durations
        self._two_level = worker.scheme.exchange == "two-level"
        connections = worker.connections()
        made = [
            [value.name or "" for node in stage.nodes for value in node.outputs] for stage in worker.stages
        ]
        self._moves = [[connections[name] for name in names if name in connections] for names in made]
        sums = [sum(map(_sums_over_batch, stage.nodes)) for stage in worker.stages]
        latency_s = worker.network.collective("all-reduce", 64)[0]
        self._sums_s = [count * latency_s for count in sums]
        self.elements: list[int] = []
        self.sent = 0

    def __call__(self, task: Task) -> Price:
        durations = self._durations
        match = _TASK.match(task.name)
        assert match is not None, task.name
        begins, what, first, last = match.groups()
        number = int(first or 0)
        slices = range(number, int(last or number) + 1)
        if what in {"forward", "backward"}:
            of_stages = durations.forward if what == "forward" else durations.backward
            moved_s = sum(seconds for seconds, _ in self._moves[number]) + self._sums_s[number]
            self.sent += sum(sent for _, sent in self._moves[number])
            return Price(of_stages[number] + moved_s, durations.processor)
        if what == "update":
            elements = sum(self.elements[one] for one in slices)
            return Price(elements * durations.update_s, durations.processor)
        if what in {"means", "result"} or begins is not None or what not in _COLLECTIVES:
            is_copy = begins is not None and what in _COLLECTIVES
            return Price(self.elements[number] * durations.copy_s if is_copy else 0.0, durations.processor)
        return self._collective(what, 4 * self.elements[number])

    def _collective(self, kind: str, size: int) -> Price:
        within = ""
        if self._two_level:
            within = "leaders" if kind == "all-reduce" else "machine"
        seconds, processor_s = self._network.collective(kind, size, within=within)
        if not seconds:
            return Price(0.0, 0.0)
        self.sent += round(self._network.sent(kind, size, within=within))
        return Price(seconds, min(1.0, processor_s / seconds), wire=f"wire {within}")


_COLLECTIVES = frozenset({"all-reduce", "reduce", "broadcast", "gather"})


def _sums_over_batch(node: ir.Node) -> int:
    """Return how often a node asks for a sum over the whole batch; a connection asks for none."""
    row = find_lowering(node.domain, node.op_type, OPSET if not node.domain else 1)
    if row is None or "batch" not in row.injected or node.op_type in _CONNECTIONS:
        return 0
    return 3 if node.op_type == "BatchNormalization" else 1


_CONNECTIONS = frozenset(CONNECTIONS.values())
