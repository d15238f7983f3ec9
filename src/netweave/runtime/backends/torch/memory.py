"""Memory of nets in torch."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from netweave.deferred import collector_at_rest
from netweave.graph import Graph
from netweave.runtime.backends.torch.device import computing_with, to_tensor
from netweave.runtime.backends.torch.net import TorchNet
from netweave.runtime.memory_plan import MeasuredMemory, Net, cheapest

# Resident memory is no measure: it counts what the C library keeps, and what was there before. The
# allocator is where values, gradients and oneDNN's scratch memory all come from; what MKL and OpenMP take
# for themselves does not.
#
# OneDNN's scratch memory grows with the number of threads, by rules that differ between processors: each
# thread of a convolution has a buffer, and sums its own gradient of the filters. No plan is about it, so a
# plan is held against one thread.


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory given out, or given back.

    Attributes:
        time_ns: When.
        address: First byte.
        num_bytes: Size; negative where it is given back.
    """

    time_ns: int
    address: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Allocations:
    """All that the allocator did while something ran.

    Attributes:
        events: In their order.
    """

    events: Sequence[Allocation]

    @property
    def peak(self) -> int:
        """The most bytes beyond those that were alive before."""
        return max(self.live_bytes(), default=0)

    def live_bytes(self) -> list[int]:
        """Return the bytes alive after each event, beyond those from before."""
        alive, sizes = 0, []
        for event in self.events:
            alive += event.num_bytes
            sizes.append(alive)
        return sizes

    def without(self, addresses: Sequence[int]) -> Allocations:
        """Return the record without the blocks that are at some addresses at its end."""
        last = {event.address: index for index, event in enumerate(self.events)}
        left_out = {last[address] for address in addresses if address in last}
        return Allocations([event for index, event in enumerate(self.events) if index not in left_out])


def record_allocations(run: Callable[[], Any]) -> Allocations:
    """Run something and return what the allocator gave out and took back."""
    gc.collect()  # tensors of earlier work, left in cycles, would be given back while this runs
    with (
        collector_at_rest(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as record,
    ):
        run()
    allocations: list[Allocation] = []
    todo = list(record.profiler.kineto_results.experimental_event_tree())
    while todo:
        event = todo.pop()
        todo.extend(event.children)
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            allocations.append(Allocation(event.start_time_ns, fields.ptr, fields.alloc_size))
    return Allocations(sorted(allocations, key=lambda event: event.time_ns))


def measure_step(
    graph: Graph, arrays: Mapping[str, np.ndarray], plan: Net, *, limit: int | None = None
) -> MeasuredMemory:
    """Run a net forward, or forward and backward, and return the most bytes given out at once.

    It runs with one thread and, where torch computes with more, a second time with all of them.

    Args:
        graph: The net.
        arrays: Its inputs by name.
        plan: The net, prepared for inference or training, as it is to run.
        limit: Compute values again so that a step stays within so many bytes.
    """
    recomputation = None if limit is None else cheapest(plan, limit)
    training = bool(plan.backward)

    def peak(num_threads: int) -> int:
        net = TorchNet(graph).train(training)  # anew, for a second step would add to the gradients of a first
        if recomputation is not None:
            net.recompute(recomputation.net, recomputation.names)
        inputs = {name: net.store.placed(to_tensor(array)) for name, array in arrays.items()}

        def step() -> None:
            with torch.set_grad_enabled(training):
                outputs = net(**inputs)
                if training:
                    sums = [output.sum() for output in outputs.values() if output.requires_grad]
                    torch.stack(sums).sum().backward()

        with computing_with(num_threads):
            return record_allocations(step).peak

    num_threads, alone = torch.get_num_threads(), peak(1)
    return MeasuredMemory(alone, num_threads, alone if num_threads == 1 else peak(num_threads))


SIZE = 1024
"""Of the square matrices: large enough for every core, small enough for the caches of most."""

REPEATS = 5


@cache
def peak_multiply_adds_per_s(device: str, threads: int) -> float:
    """Return the multiply-adds per second of a float32 matrix product, the best of several.

    Measured once in a process, in some tenths of a second. Ranks that measure at the same time share the
    machine as they do in training.

    Args:
        device: Torch's name of the device.
        threads: Threads of the caller; another number is measured anew.
    """
    a = torch.rand(SIZE, SIZE, device=device)
    b = torch.rand(SIZE, SIZE, device=device)
    seconds = []
    for _ in range(REPEATS):
        began_s = perf_counter()
        c = a @ b
        float(c[0, 0])  # a GPU is done when a number of it is here
        seconds.append(perf_counter() - began_s)
    return float(SIZE**3 / min(seconds))
