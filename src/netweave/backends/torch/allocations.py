"""What torch's allocator gives out on a CPU: every block and when, by the profiler's own record.

Resident memory is no measure: it counts what the C library keeps, and what was there before. The allocator is
where values, gradients and oneDNN's scratch memory all come from; what MKL and OpenMP take for themselves
does not.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile

from netweave.backends.torch.dtypes import to_tensor
from netweave.backends.torch.net import TorchNet
from netweave.graph.collection import collector_at_rest
from netweave.memory_plan import cheapest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np

    from netweave.graph import Graph
    from netweave.memory_plan import Net


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
        alive, found = 0, []
        for event in self.events:
            alive += event.num_bytes
            found.append(alive)
        return found

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
    found: list[Allocation] = []
    todo = list(record.profiler.kineto_results.experimental_event_tree())
    while todo:
        event = todo.pop()
        todo.extend(event.children)
        if event.tag == _EventType.Allocation:
            fields = event.extra_fields
            found.append(Allocation(event.start_time_ns, fields.ptr, fields.alloc_size))
    return Allocations(sorted(found, key=lambda event: event.time_ns))


def measure_step(
    graph: Graph, arrays: Mapping[str, np.ndarray], plan: Net, *, limit: int | None = None
) -> int:
    """Run a net forward, or forward and backward, and return the most bytes given out at once.

    Args:
        graph: The net.
        arrays: Its inputs by name.
        plan: The net, prepared for inference or training, as it is to run.
        limit: Compute values again so that a step stays within so many bytes.
    """
    training = bool(plan.backward)
    net = TorchNet(graph).train(training)
    if limit is not None:
        found = cheapest(plan, limit)
        net.recompute(found.net, found.names)
    inputs = {name: net.store.placed(to_tensor(array)) for name, array in arrays.items()}

    def step() -> None:
        with torch.set_grad_enabled(training):
            outputs = net(**inputs)
            if training:
                sums = [output.sum() for output in outputs.values() if output.requires_grad]
                torch.stack(sums).sum().backward()

    return record_allocations(step).peak
