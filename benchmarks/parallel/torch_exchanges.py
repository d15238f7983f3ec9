"""What Netweave is measured against: PyTorch's ways to sum gradients, on the same module and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from benchmarks.parallel import nets
from netweave.training.loading import make_nets

if TYPE_CHECKING:
    import numpy as np

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet

DDP_DEFAULT_MB = 25


class Objective(nn.Module):
    """The module that Netweave lowers a net to, with the sum of its losses as output."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return the objective."""
        return torch.stack([output.sum() for output in self.module(*inputs)]).sum()


class TorchLoop:
    """A training loop as people write it.

    Args:
        job: What to train.
        data: Arrays of all records by input.
        kind: ``alone`` (no exchange), ``flat`` (one blocking all-reduce after backward), ``parameter`` (an
            all-reduce of each parameter's gradient as soon as it is there), ``ddp-MB`` or ``ddp-MB-fp16``.
        rank: Number of this process.
        ranks: Number of ranks; each takes its share of a batch.
        momentum: Of the optimizer.
    """

    def __init__(
        self, job: Job, data: Mapping[str, np.ndarray], kind: str, *, rank: int, ranks: int, momentum: float
    ) -> None:
        net = lowered(job)
        size = job.phases["train"].data[0].batch_size // ranks
        own = {key: torch.from_numpy(rows[rank * size : (rank + 1) * size]) for key, rows in data.items()}
        self._inputs = net.placed(own)
        self._net = net
        self._module: nn.Module = Objective(net.module)
        self._parameters = [one for one in net.module.parameters() if one.requires_grad]
        self._ranks = ranks
        self._group = distributed.new_group(backend="gloo") if kind != "alone" and ranks > 1 else None
        self._works: list[tuple[Any, Tensor]] = []
        self._after_backward: Callable[[], None] = lambda: None
        if kind == "flat":
            self._row = torch.zeros(sum(one.numel() for one in self._parameters))
            self._after_backward = self._sum_flat
        elif kind == "parameter":
            for parameter in self._parameters:
                parameter.register_post_accumulate_grad_hook(self._begin)
            self._after_backward = self._wait
        elif kind.startswith("ddp"):
            self._wrap(*kind.split("-")[1:])
        elif kind != "alone":
            raise SystemExit(f"no way of exchange {kind!r}")
        self._optimizer = torch.optim.SGD(
            self._parameters, lr=nets.RATE, momentum=momentum, weight_decay=nets.DECAY, fused=True
        )

    def run(self, count: int) -> list[float]:
        """Make steps; return when the loss of each was known."""
        known_s = [self._step() for _ in range(count)]
        self._optimizer.zero_grad()  # what the next candidate's turn needs the memory for
        return known_s

    def close(self) -> None:
        """Let go of all tensors, and of the group's threads and sockets."""
        self.__dict__.clear()

    def _wrap(self, megabytes: str, compression: str = "") -> None:
        wrapped = DistributedDataParallel(
            self._module,
            process_group=self._group,
            bucket_cap_mb=float(megabytes),
            broadcast_buffers=False,  # else each forward sends the statistics besides
            gradient_as_bucket_view=True,
        )
        if compression == "fp16":
            wrapped.register_comm_hook(self._group, fp16_compress_hook)
        self._module = wrapped

    def _step(self) -> float:
        self._optimizer.zero_grad()
        if self._net.draws is not None:
            self._net.draws.begin()
        objective = self._module(*self._inputs)
        objective.item()
        known_s = perf_counter()
        objective.backward()
        self._after_backward()
        self._optimizer.step()
        return known_s

    def _sum_flat(self) -> None:
        offset = 0
        pieces = []
        for parameter in self._parameters:
            assert parameter.grad is not None
            piece = self._row[offset : offset + parameter.numel()]
            piece.copy_(_in_memory(parameter.grad))
            pieces.append((parameter.grad, piece))
            offset += parameter.numel()
        self._row /= self._ranks
        distributed.all_reduce(self._row, group=self._group)
        for gradient, piece in pieces:
            _in_memory(gradient).copy_(piece)

    def _begin(self, parameter: Tensor) -> None:
        assert parameter.grad is not None
        gradient = _in_memory(parameter.grad)
        gradient /= self._ranks
        self._works.append((distributed.all_reduce(gradient, group=self._group, async_op=True), gradient))

    def _wait(self) -> None:
        for work, _ in self._works:
            work.wait()
        self._works.clear()


def lowered(job: Job) -> TorchNet:
    """Return the net of a job as Netweave lowers it."""
    return make_nets(job.phases, seed=1, device=torch.device("cpu"), dtype=torch.float32)["train"].train()


def _in_memory(tensor: Tensor) -> Tensor:
    """Return the elements of a dense tensor in one row, in the order in which they lie in memory."""
    return tensor.as_strided((tensor.numel(),), (1,))


def seconds_of_link(num_elements: int, *, repeats: int) -> list[float]:
    """Return how long an all-reduce of so many elements takes with nothing beside it."""
    row = torch.zeros(num_elements)
    group = distributed.new_group(backend="gloo")
    distributed.all_reduce(row, group=group)
    seconds = []
    for _ in range(repeats):
        distributed.barrier(group)
        began = perf_counter()
        distributed.all_reduce(row, group=group)
        seconds.append(perf_counter() - began)
    return seconds
