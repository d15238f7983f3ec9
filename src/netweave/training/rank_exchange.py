"""One of several ranks that make each update together: what it exchanges with the others.

Each rank computes a part of every batch with the same parameters. The mean of the ranks' gradients,
objectives and outputs is that of the whole batch, as every operator that looks at the whole batch takes part
in making it so (``runtime.backends.torch.whole_batch``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor, distributed

from netweave.errors import UnsupportedError
from netweave.graph import OPSET, Graph
from netweave.graph.costs import node_cost
from netweave.job import Job
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.memory import peak_multiply_adds_per_s
from netweave.runtime.backends.torch.node_memory import memories
from netweave.runtime.backends.torch.operator_table import find_lowering
from netweave.runtime.engine import Completion, Engine, Variable
from netweave.training.checkpoint_file import exchange_in_common
from netweave.training.data import Shards
from netweave.training.goodput import RankWork
from netweave.training.loading import layer_numbers, moving_states
from netweave.training.optim import Updater
from netweave.training.parallel.environment import asked, told_by
from netweave.training.parallel.exchange import Exchange
from netweave.training.parallel.link import Channel
from netweave.training.parallel.occupancy import COMPUTE
from netweave.training.parallel.plan import SliceInfo
from netweave.training.parallel.whole_batch import RankedBatch

if TYPE_CHECKING:
    from netweave.training.parallel.shards import ShardBatch
    from netweave.training.parallel.world import World
    from netweave.training.watchers import TrainOptions

T = TypeVar("T")

STAGES, STAGES_OF_ONE_MACHINE = 16, 4
"""Stages of a net whose gradients are exchanged: each sends while the earlier ones are still in backward.

A stage costs each rank 0.4 ms of Python. Between ranks of one machine there is less to hide than that.
"""


def stages_for(world: World | None) -> int:
    """Return into how many stages a net is cut, by where the other ranks are; no bit depends on it."""
    if world is None:
        return 1
    return STAGES_OF_ONE_MACHINE if len(world.machines) == 1 else STAGES


def check_parts(job: Job, num_ranks: int) -> None:
    """Refuse a batch in parts of different sizes where a loss takes each part for as much as another.

    A loss operator of Netweave's asks for the size of the whole batch; a plain ReduceMean cannot.

    Raises:
        UnsupportedError: The parts differ in size, and a loss does not weight them.
    """
    phase = job.phases["train"]
    uneven = next((source.batch_size for source in phase.data if source.batch_size % num_ranks), None)
    if uneven is None:
        return
    for value in phase.graph.outputs:
        node = value.producer()
        if value.name not in phase.losses or node is None:
            continue
        row = find_lowering(node.domain, node.op_type, OPSET if not node.domain else 1)
        if row is None or "batch" not in row.injected:
            raise UnsupportedError(
                f"{job.name}: a batch of {uneven} does not split evenly over {num_ranks} ranks, and the loss "
                f"{value.name!r} ({node.op_type}) does not weight parts of different sizes; use a batch size "
                f"that is divisible by {num_ranks}"
            )


def multiply_adds_per_sample(graph: Graph) -> float:
    """Return the multiply-adds of forward and backward of one sample.

    Backward makes the gradient of the input and of the weights, each for what forward takes; layers that read
    an input of the net have no gradient of it.
    """
    sizes = [value.shape[0] for value in graph.inputs if value.shape is not None and len(value.shape)]
    batch = next((size for size in sizes if isinstance(size, int)), 1)
    inputs = set(graph.inputs)
    total = 0
    for node in graph.nodes:
        once = node_cost(node, batch=1).multiply_adds
        total += once * (2 if any(value in inputs for value in node.inputs) else 3)
    return total / batch


class RankExchange:
    """Tasks that a run of several ranks adds to an update.

    Args:
        world: The ranks.
        options: Say how gradients are exchanged, and what batch normalisation looks at.
        engine: Where tasks run.

    Attributes:
        world: The ranks.
        stop: The exit status that this rank was asked to stop with; 0 if it was not.
        saves: Whether this rank, the first, asks all for a checkpoint after the update.
        shares_tests: Whether ranks share each batch of a test, and do not take turns at whole ones.
        display_passes: Passes of a batch that is shown at the end without an update.
        shards: The shards of each batch that this rank takes in passes of their own; None where it takes one
            part.
    """

    shares_tests: ClassVar[bool] = False
    display_passes = 1
    shards: Shards | None = None

    def __init__(self, world: World, options: TrainOptions, *, engine: Engine) -> None:
        self.world = world
        self.stop = 0
        self.saves = False
        self._settings, self._engine = options.exchange_settings, engine
        if world.part is not None:
            self._settings = world.part.exchange_settings(self._settings)
        is_synchronised = options.sync_batch_norm
        self.require_same_start(
            {**exchange_in_common(self._settings), "synchronised batch normalisation": is_synchronised}
        )
        self._batch: RankedBatch | ShardBatch = RankedBatch(world, is_synchronised=is_synchronised)
        self._means = Channel(world, engine, "means")
        self._measured: tuple[float, dict[str, Tensor]] | None = None
        self._exchange: Exchange | None = None
        self._compute_s = 0.0

    def join_batch(self, net: TorchNet, job: Job) -> None:
        """Let a net's operators see the whole batch of which this rank computes a part.

        Raises:
            UnsupportedError: The net keeps something from batch to batch for each sample, or has a loss that
                cannot weight parts of different sizes.
        """
        check_parts(job, self.world.size)
        keeping = ", ".join(memories(net.module))
        groups = 1 if self.world.part is None else self.world.part.cluster.worker_groups
        if keeping and self.world.size * groups > 1:
            raise UnsupportedError(
                f"{job.name}: {keeping} keep their state from batch to batch, so several ranks cannot train "
                "them; use one device"
            )
        net.set_whole_batch(self._batch)

    def is_shared(self, key: str) -> bool:
        """Return whether all ranks have the same array."""
        return True

    def exchange_slices(self, updater: Updater, graph: Graph, stages: Sequence[int]) -> None:
        """Lay out the exchange.

        Args:
            updater: Its layout and parameters are exchanged.
            graph: The training net.
            stages: The stage that completes each slice.
        """
        slices = self._slices(updater, graph, stages)
        self._exchange = Exchange(
            self.world, self._settings, updater.layout, updater.parameters, slices, engine=self._engine
        )

    def _slices(self, updater: Updater, graph: Graph, stages: Sequence[int]) -> list[SliceInfo]:
        layers = layer_numbers(graph)
        return [
            SliceInfo(sum(span.stop - span.start for span in spans), layers[spans[0].key], stage)
            for spans, stage in zip(updater.layout.slices, stages, strict=True)
        ]

    @property
    def told(self) -> float:
        """The number that this rank adds to the sum by which all learn what one was asked for."""
        return asked(self.stop, self.saves)

    @property
    def num_bytes(self) -> int:
        """The bytes that gradients are exchanged in; 0 where none are."""
        return 0 if self._exchange is None else self._exchange.num_bytes

    def check_memory_plan(self, graph: Graph) -> None:
        """Refuse to plan the memory of a net whose batch is normalised over ranks, which no plan counts.

        Args:
            graph: The training net.

        Raises:
            UnsupportedError: It is.
        """
        norms = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
        if norms and not self._batch.normalises_parts:
            raise UnsupportedError(
                f"{graph.place_of(norms[0])}: memory is limited, and what normalisation by the statistics of "
                "all ranks needs is not planned; use --no-sync-batch-norm (sync_batch_norm=False), or leave "
                "--memory out"
            )

    def require_same_start(self, values: Mapping[str, Any]) -> None:
        """Refuse to begin unless all ranks have the same values, see ``same_run``.

        Raises:
            UsageError: One has others; the message names it.
        """
        self.world.require_all_equal(values, "start all ranks with the same files, seed and settings")

    # In an update, see ``StepProgram``.

    def timed(self, task: Callable[[], T]) -> T:
        """Do a part of a pass or an update; how long all of them take tells slow ranks from waiting ones."""
        began, waited_s = perf_counter(), self._batch.waited_s
        try:
            with self.world.occupancy.busy(COMPUTE):
                return task()
        finally:
            self._compute_s += perf_counter() - began - (self._batch.waited_s - waited_s)

    def measured(self, loss: float, outputs: dict[str, Tensor]) -> None:
        """Take the objective and the outputs of this rank's part."""
        self._measured = (loss, outputs)

    def push_means(self, step: int, variable: Variable, result: Callable[..., Any]) -> Completion[Any]:
        """Push the means of objectives and outputs; return what ``result`` makes of them.

        Args:
            step: Number of the update.
            variable: Of what ``measured`` took; written.
            result: Called with the mean objective, the outputs, the exit status to stop with, and whether a
                checkpoint is due.
        """
        sums: list[Tensor] = []

        def begin() -> Any:
            assert self._measured is not None
            loss, outputs = self._measured
            numbers = [self.told, loss]
            numbers += [float(tensor) for tensor in outputs.values() if is_mean(tensor)]
            sums.append(torch.tensor(numbers, dtype=torch.float64))
            return distributed.all_reduce(sums[0], group=self.world.group("means"), async_op=True)

        self._means.push(begin, variable, name=f"means {step}")

        def finish() -> Any:
            assert self._measured is not None
            stop, loss, *rest = (sums[0] / self.world.size).tolist()
            outputs = self._measured[1]
            taken = 0
            for name, tensor in outputs.items():
                if is_mean(tensor):
                    outputs[name] = torch.tensor(rest[taken], dtype=tensor.dtype)
                    taken += 1
            self._note_progress(step)
            return result(loss, outputs, **told_by(stop * self.world.size))

        return self._engine.push(finish, (), [variable], lane="link", name=f"result {step}")

    def _note_progress(self, step: int) -> None:
        progress = self.world.progress
        progress.iteration = step
        progress.updates += 1
        progress.compute_s = self._compute_s

    def push_gradients(self, step: int, gradients: Sequence[Variable]) -> None:
        """Push the exchange of gradients."""
        assert self._exchange is not None
        self._exchange.push_gradients(step, gradients)

    def push_parameters(self, step: int, parameters: Sequence[Variable]) -> None:
        """Push the way of parameters from their owners."""
        assert self._exchange is not None
        self._exchange.push_parameters(step, parameters)

    def owns(self, number: int) -> bool:
        """Return whether this rank updates a slice."""
        assert self._exchange is not None
        return bool(self._exchange.owns(number))

    def measure_gradients(self, updater: Updater) -> Tensor:
        """Return the rule's sums over all slices, each measured by one rank that has it."""
        assert self._exchange is not None
        if not self._settings.has_owners:
            return updater.measure()
        own = [number for number in range(len(updater.layout.slices)) if self.owns(number)]
        sums = updater.measure(own)
        with self.world.watched("the sums of gradients"):
            distributed.all_reduce(sums, group=self.world.group("measures"))
        return sums

    # Outside of updates.

    def compute(self, phase: str, net: TorchNet, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return what a net that is tested gives on this rank's inputs, by name."""
        return net.compute(inputs)

    def total_means(self, sums: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
        """Return the means over the batches of all ranks, of what each has summed over its own.

        Args:
            sums: By output.
            count: How many batches this rank had.
        """
        keys = sorted(sums)
        row = torch.cat(
            [torch.tensor([float(count)]).double(), *(sums[key].reshape(-1).double() for key in keys)]
        )
        with self.world.watched("the means of a test"):
            distributed.all_reduce(row, group=self.world.group("tests"))
        means, taken = {}, 1
        for key in keys:
            size = sums[key].numel()
            means[key] = (row[taken : taken + size] / row[0]).reshape(sums[key].shape)
            taken += size
        return means

    def gather_work(self, graph: Graph, samples: int, input_threads: float) -> tuple[RankWork, ...]:
        """Return what each rank did since its first update.

        Args:
            graph: The training net.
            samples: How many samples this rank computed.
            input_threads: How many threads made batches, on average.
        """
        world, elapsed_s = self.world, self.world.occupancy.elapsed_s
        compute, link, hidden = world.occupancy.shares()
        own = RankWork(
            world.rank,
            world.ranks[world.rank].host,
            str(world.device),
            compute,
            link,
            hidden,
            input_threads,
            samples * multiply_adds_per_sample(graph) / elapsed_s,
            peak_multiply_adds_per_s(str(world.device), torch.get_num_threads()),
        )
        return tuple(RankWork.from_json(one) for one in world.gather(own.to_json(), "work"))

    def average_states(self, net: TorchNet) -> None:
        """Give moving statistics the mean over ranks where each follows its own part of the batches.

        They follow linearly, so that it does not matter how often that is done. No task may be left.
        """
        if self._batch.is_synchronised or self.world.size == 1:
            return
        states = moving_states(net)
        if not states:
            return
        row = torch.cat([tensor.reshape(-1).double().cpu() for tensor in states])
        with self.world.watched("the mean of moving statistics"):
            distributed.all_reduce(row, group=self.world.group("tests"))
        taken = 0
        with torch.no_grad():
            for tensor in states:
                mean = row[taken : taken + tensor.numel()] / self.world.size
                tensor.copy_(mean.reshape(tensor.shape))
                taken += tensor.numel()

    def collect_state(self, updater: Updater) -> None:
        """Give all ranks what the solver keeps for slices that others own; before a checkpoint."""
        assert self._exchange is not None
        if self._settings.has_owners:
            for name in updater.rule.names:
                self._exchange.collect({key: kept[name] for key, kept in updater.state.items()})

    def residuals(self) -> dict[int, np.ndarray]:
        """Return, on rank 0, what each rank has not sent yet, by rank; empty where all is sent."""
        assert self._exchange is not None
        return self._exchange.gather_residuals()

    def restore_residuals(self, residuals: Mapping[int, np.ndarray]) -> None:
        """Go on with residuals; where there were other ranks, each takes an equal share of their sum."""
        assert self._exchange is not None
        self._exchange.restore_residuals(residuals)


def is_mean(tensor: Tensor) -> bool:
    """Return whether an output is a number about the whole batch, and not one for each sample."""
    return bool(tensor.ndim == 0)
