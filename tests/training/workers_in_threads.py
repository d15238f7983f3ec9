"""Workers of a partitioned net as threads of one process, so that many nets and cuts are tried quickly."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netweave.graph.passes.partition import shares
from netweave.job import DataSource, Phase
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.stages import cut, run_backward, run_stage
from netweave.runtime.backends.torch.whole_batch import WholeBatch
from netweave.training.net_passes import objective_of
from netweave.training.partitioned import Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from netweave.graph import Graph
    from netweave.graph.passes.partition import LayerCut


class Meeting:
    """A place where workers hand each other values."""

    def __init__(self, num_workers: int) -> None:
        self.num_workers = num_workers
        self._barrier = threading.Barrier(num_workers, timeout=60)
        self._values: dict[int, Any] = {}

    def swap(self, worker: int, value: Any) -> list[Any]:
        self._values[worker] = value
        self._barrier.wait()
        values = [self._values[other] for other in range(self.num_workers)]
        self._barrier.wait()
        return values

    def abort(self) -> None:
        self._barrier.abort()


class ThreadedBatch(WholeBatch):
    """The whole batch as one worker sees it; sums are taken in the order of the workers."""

    def __init__(self, meeting: Meeting, worker: int) -> None:
        self.parts = meeting.num_workers
        self._meeting, self._worker = meeting, worker

    def exchange(self, parts, sizes):
        sent = self._meeting.swap(self._worker, [part.clone() for part in parts])
        received = [row[self._worker] for row in sent]
        assert [len(part) for part in received] == list(sizes)
        return received

    def total(self, value):
        return _Sum.apply(value, self)

    def sum(self, value):
        return torch.stack(self._meeting.swap(self._worker, value.detach().clone())).sum(0)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(context, value, batch):
        context.batch = batch
        return batch.sum(value)

    @staticmethod
    def backward(context, above):
        return context.batch.sum(above), None


@dataclass(frozen=True)
class Training:
    """A short training of a net by plain gradient descent.

    Attributes:
        graph: The net; an output whose name begins with ``loss`` is one.
        batches: Its inputs.
        rate: Learning rate.
        seed: Of what is drawn.
    """

    graph: Graph
    batches: Sequence[Mapping[str, torch.Tensor]]
    rate: float = 0.02
    seed: int = 3

    @property
    def phase(self) -> Phase:
        losses = {v.name: 1.0 for v in self.graph.outputs if v.name.startswith("loss")}
        names = tuple(value.name for value in self.graph.inputs)
        return Phase(self.graph, (DataSource("given", names, self.num_rows),), losses)

    @property
    def num_rows(self) -> int:
        return len(next(iter(self.batches[0].values())))

    def whole_net(self) -> TorchNet:
        return TorchNet(self.graph, taps=list(self.phase.losses)).to(torch.float64).train()

    def alone(self) -> tuple[dict[str, np.ndarray], list[float]]:
        """Train in one part; return the arrays and the losses."""
        net = self.whole_net()
        losses = [
            self._step(net, batch, step, (0, self.num_rows), lambda key, gradient: gradient)
            for step, batch in enumerate(self.batches)
        ]
        return {key: tensor.detach().numpy().copy() for key, tensor in net.params.items()}, losses

    def cut(self, cuts: Sequence[LayerCut], num_workers: int) -> tuple[dict[str, np.ndarray], list[float]]:
        """Train on workers; return the whole arrays, and the mean of the losses."""
        meeting = Meeting(num_workers)
        results: dict[int, tuple[Any, Any, Partition]] = {}
        errors: list[BaseException] = []
        whole = {"train": self.whole_net()}

        def work(worker: int) -> None:
            try:
                results[worker] = self._work(meeting, worker, cuts, whole)
            except BaseException as error:  # noqa: BLE001 - raised where the thread is waited for
                errors.append(error)
                meeting.abort()

        threads = [threading.Thread(target=work, args=(worker,)) for worker in range(num_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in errors:
            if not isinstance(error, threading.BrokenBarrierError):
                raise error
        assert not errors
        partition = results[0][2]
        arrays = {
            key: partition.joined(key, [results[w][0].get(key) for w in range(num_workers)], row.axis)
            for key, row in partition.wholes.items()
        }
        return arrays, list(np.mean([results[w][1] for w in range(num_workers)], 0))

    def _work(self, meeting, worker, cuts, whole):
        partition = Partition({"train": self.phase}, cuts, num_workers=meeting.num_workers, worker=worker)
        net = partition.nets(whole)["train"].train()
        held = sum(tensor.numel() for tensor in net.params.values())
        assert held == partition.plans["train"].elements_of(worker)
        batch = ThreadedBatch(meeting, worker)
        net.set_whole_batch(batch)
        own = shares(self.num_rows, meeting.num_workers)[worker]

        def mean(key: str, gradient: torch.Tensor) -> torch.Tensor:
            total = batch.sum(gradient) if partition.holding(key).is_shared else gradient
            return total / meeting.num_workers

        losses = [
            self._step(net, {k: t[own[0] : own[1]] for k, t in given.items()}, step, own, mean)
            for step, given in enumerate(self.batches)
        ]
        arrays = {key: tensor.detach().numpy().copy() for key, tensor in net.params.items()}
        return arrays, losses, partition

    def _step(
        self,
        net: TorchNet,
        batch: Mapping[str, torch.Tensor],
        step: int,
        rows: tuple[int, int],
        mean: Callable[[str, torch.Tensor], torch.Tensor],
    ) -> float:
        """Do a step in three stages, as a run does: connections have their place in one of them."""
        net.zero_grad()
        if net.draws is not None:
            net.draws.at(seed=self.seed, step=step, first=rows[0], samples=rows[1] - rows[0])
        passes, given = [], net.placed(batch)
        for stage in cut(net, 3):
            passes.append(run_stage(net, stage, given))
            given = passes[-1].outputs
        objective = objective_of(dict(zip(net.names, given, strict=True)), self.phase.losses)
        for done in passes[:-1]:
            done.release_outputs()
        above = run_backward(passes[-1], [], objective=objective)
        for done in reversed(passes[:-1]):
            above = run_backward(done, above)
        gradients = dict(net.grads)
        with torch.no_grad():
            for key in sorted(net.params):
                if net.store[key].parameter.trainable:
                    gradient = gradients.get(key)
                    gradient = torch.zeros_like(net.params[key]) if gradient is None else gradient
                    net.params[key] -= self.rate * mean(key, gradient)
        return float(objective.detach())
