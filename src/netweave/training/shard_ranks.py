"""One of any number of ranks whose updates are the same to the bit: each computes some shards of a batch.

What else differs with the number of ranks is fixed here too: objectives and outputs are added in the tree of
the gradients, each shard begins with the moving statistics of the last update, and their mean is taken in
every update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from netweave.errors import UnsupportedError, UsageError
from netweave.runtime.backends.torch.node_memory import memories
from netweave.training.loading import moving_states
from netweave.training.parallel.environment import told_by
from netweave.training.parallel.shards import SHARDS, ShardBatch, ShardExchange, kernels, shards_of, tree_sum
from netweave.training.rank_exchange import RankExchange, check_parts, is_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

    from netweave.graph import Graph
    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.stages import Stage
    from netweave.runtime.engine import Completion, Engine, Variable
    from netweave.training.data.order import Shards
    from netweave.training.net_passes import Part
    from netweave.training.optim import Updater
    from netweave.training.parallel.world import World
    from netweave.training.watchers import TrainOptions


class ShardRanks(RankExchange):
    """The part of several ranks, or of one, in an update that has the same bits on any number.

    Args:
        world: The ranks.
        options: Say into how many shards a batch is divided.
        engine: Where tasks run.

    Attributes:
        shards: Those of this rank.

    Raises:
        UsageError: The shards cannot be shared out evenly, or ranks have other processors or libraries.
    """

    def __init__(self, world: World, options: TrainOptions, *, engine: Engine) -> None:
        size = options.same_bits
        assert size is not None
        self.shards: Shards = shards_of(world, size)
        self.display_passes = self.shards.count
        super().__init__(world, options, engine=engine)
        self._is_synchronised = options.sync_batch_norm
        self.require_same_start({SHARDS: size, **kernels()})
        self._batch = ShardBatch(size)
        self._states: list[Tensor] = []
        self._before: list[Tensor] = []
        self._state: Variable | None = None
        self._rows: list[Tensor] = []
        self._outputs: dict[str, Tensor] = {}

    @property
    def num_passes(self) -> int:
        """The number of passes that this rank makes in an update."""
        return self.shards.count

    @property
    def num_held(self) -> int:
        """The number of passes of which one stage after another is differentiated, in all of them.

        With the passes one after another, the gradients of all parameters would be complete in the last one
        alone, and little of the exchange hidden. Where there is none, they take less memory.
        """
        return self.num_passes if self.world.size > 1 else 1

    def promise(self) -> dict[str, Any]:
        """Return, for a checkpoint, what the bits of the run depend on."""
        return {**kernels(), SHARDS: self.shards.size}

    def join_batch(self, net: TorchNet, job: Job) -> None:
        """Let a net's operators see the whole batch of which a pass computes a shard.

        Raises:
            UsageError: Batch normalisation is to look at the whole batch.
            UnsupportedError: The net keeps something from batch to batch for each sample, or several batches
                are accumulated.
        """
        graph, size = job.phases["train"].graph, self.shards.size
        norms = [node for node in graph.nodes if node.op_type == "BatchNormalization"]
        if norms and self._is_synchronised and size > 1:
            raise UsageError(
                f"{graph.place_of(norms[0])}: with --same-bits, batch normalisation takes the statistics of "
                "each shard; say so with --no-sync-batch-norm (sync_batch_norm=False)"
            )
        keeping = ", ".join(memories(net.module))
        if keeping:
            raise UnsupportedError(
                f"{job.name}: {keeping} keep their state from batch to batch, so they cannot be trained with "
                "--same-bits"
            )
        if job.solver.accumulate > 1:
            raise UnsupportedError(
                f"{job.name}: an update accumulates {job.solver.accumulate} batches, which is not supported "
                "with --same-bits; take one larger batch, and more shards"
            )
        check_parts(job, size)
        self._states = moving_states(net)
        net.set_whole_batch(self._batch)

    def exchange_slices(self, updater: Updater, graph: Graph, stages: Sequence[int]) -> None:
        """Lay out the exchange."""
        self._exchange = ShardExchange(
            self.shards,
            self.world,
            self._settings,
            updater.layout,
            updater.parameters,
            self._slices(updater, graph, stages),
            engine=self._engine,
        )

    # In an update.

    def push_begin(self, state: Variable) -> None:
        """Push what comes before the first pass.

        Args:
            state: Of the moving statistics.
        """
        self._state = state

        def begin() -> None:
            self._rows = []
            self._before = [tensor.clone() for tensor in self._states]

        self._engine.push(begin, (), [state], lane="compute", name="begin shards")

    def take_gradients(self, part: Part, stage: Stage) -> None:
        """Take the gradients of the parameters that a pass has completed."""
        exchange = self._exchange
        assert isinstance(exchange, ShardExchange)
        exchange.take(self.shards.numbers[part.number], stage.completes)

    def measured(self, loss: float, outputs: dict[str, Tensor]) -> None:
        """Take the objective, the outputs and the moving statistics of a shard."""
        told = 0.0 if self._rows else self.told
        numbers = [told, loss, *(float(tensor) for tensor in outputs.values() if is_mean(tensor))]
        rows = [torch.tensor(numbers, dtype=torch.float64)]
        with torch.no_grad():
            for tensor, before in zip(self._states, self._before, strict=True):
                rows.append(tensor.reshape(-1).double().cpu())
                tensor.copy_(before)
        self._rows.append(torch.cat(rows))
        self._outputs = outputs

    def push_means(self, step: int, variable: Variable, result: Callable[..., Any]) -> Completion[Any]:
        """Push the means of objectives, outputs and statistics; return what ``result`` makes of them."""
        assert self._state is not None
        gathered: list[Tensor] = []

        def begin() -> Any:
            rows = torch.cat(self._rows)
            gathered.append(rows.new_empty(self.world.size * len(rows)))
            return distributed.all_gather_single(
                gathered[0], rows, group=self.world.group("means"), async_op=True
            )

        self._means.push(begin, variable, name=f"means {step}")

        def finish() -> Any:
            size = self.shards.size
            means = tree_sum(gathered[0].reshape(size, -1))
            told = float(means[0])
            means /= size
            outputs = self._outputs
            at = 2
            for name, tensor in outputs.items():
                if is_mean(tensor):
                    outputs[name] = means[at].to(tensor.dtype)
                    at += 1
            with torch.no_grad():
                for tensor in self._states:
                    mean = means[at : at + tensor.numel()]
                    tensor.copy_(mean.reshape(tensor.shape))
                    at += tensor.numel()
            self._note_progress(step)
            return result(float(means[1]), outputs, **told_by(told))

        return self._engine.push(finish, (), [variable, self._state], lane="link", name=f"result {step}")

    def average_states(self, net: TorchNet) -> None:
        """Do nothing: every update takes the mean."""

    def restore_residuals(self, residuals: Mapping[int, Any]) -> None:
        """Do nothing: all of each gradient is sent."""
