"""Cost of a run's links: measured between its ranks for the size of slices, and a model of it for plans."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from math import ceil, log2
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed

from netweave.runtime.engine import Price, ThreadedEngine, Variable
from netweave.training.parallel.link import Channel
from netweave.training.parallel.occupancy import Occupancy

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed import Work

    from netweave.training.parallel.world import World

SLICES = ((80e6, 1 << 20), (40e6, 1 << 19), (0.0, 1 << 18))
"""Elements of a slice by the bytes per second of an all-reduce, at least.

Few sizes far apart, since with three ranks and more the last bits of a sum depend on the borders: two runs on
one link must not differ because a measurement did. Each collective costs the processor some 0.5 ms, whatever
its size: at 200 Mbit/s a step of ResNet-18 takes 2.03 s with these, and 2.23 s with a quarter of them.
"""

ELEMENTS_OF_ONE_MACHINE = 1 << 22
"""Elements of a slice between ranks of one machine. Their link is memory: what beginning a
collective earlier saves is less than what one more of them costs."""

PROBE_ELEMENTS = 1 << 18
REPEATS = 4


def slice_elements_for(world: World, *, has_owners: bool = False) -> int:
    """Return the elements of a slice, the same for all ranks and all attempts of a run.

    Ranks of one machine need no measurement: their link is memory.

    Args:
        world: The ranks.
        has_owners: Whether slices are dealt out to owners, which should have about as much each.
    """
    if len(world.machines) == 1:
        return SLICES[0][1] if has_owners else ELEMENTS_OF_ONE_MACHINE
    speed = _measure(world)
    chosen = next(elements for least, elements in SLICES if speed >= least)
    agreed: int = world.keep(lambda: chosen, "slice elements")
    return agreed


def _measure(world: World) -> float:
    """Return the bytes per second of an all-reduce, at best of several."""
    probe = torch.zeros(PROBE_ELEMENTS, device=world.device)
    seconds = []
    with world.watched("measuring the link"):
        for _ in range(REPEATS):
            began = perf_counter()
            distributed.all_reduce(probe, group=world.group("gradients"))
            seconds.append(perf_counter() - began)
    return PROBE_ELEMENTS * 4 / min(seconds)


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
        message_processor_s: Seconds of it for a message between two stages, whether it sends or receives it.
        message_processor_s_per_byte: Seconds of it for each byte of one.
        has_trees: Whether small tensors are summed in a tree, as by NCCL; gloo has a ring for all.
    """

    machines: int
    each: int
    between: float
    inside: float
    inside_latency_s: float = 2e-5
    processor_s_per_byte: float = 0.0
    processor_s: float = 0.0
    message_processor_s: float = 0.0
    message_processor_s_per_byte: float = 0.0
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

    def message(self, pair: tuple[int, int], num_bytes: int) -> Price:
        """Return the price of a message from one device to another; devices of a machine share its link."""
        source, target = (device // self.each for device in pair)
        if source == target:
            return Price(num_bytes / self.inside + self.inside_latency_s, 0.0, wire=f"wire {pair}")
        return Price(num_bytes / self.between + LATENCY_S, 0.0, wire=f"wire of machine {source}")

    def processor_s_of_message(self, num_bytes: int) -> float:
        """Return the seconds of the processor of a device that sends or receives a message."""
        return self.message_processor_s + self.message_processor_s_per_byte * num_bytes

    def all_to_all_s(self, num_bytes: float) -> float:
        """Return the seconds in which a device sends so many bytes to all others, and receives as many."""
        outside = num_bytes * (self.size - self.each) / max(1, self.size - 1)
        inside_s = (num_bytes - outside) / self.inside
        latency_s = self.inside_latency_s if self.machines == 1 else LATENCY_S
        return max(inside_s, self.each * outside / self.between) + latency_s * min(self.size - 1, 16)


def measured_network(machines: int, each: int, bytes_per_s: float) -> Network:
    """Return the network of devices like this machine's processors, over links of a rate.

    Inside a machine, and for what collectives and messages cost the processor, two ranks of gloo are measured
    over this machine's loopback.

    Args:
        machines: Machines.
        each: Devices of each.
        bytes_per_s: Of the link of a machine, as ``parse_rate`` returns them.
    """
    small_s, small_processor_s = _all_reduce(_SMALL_ELEMENTS)
    large_s, processor_s = _all_reduce(_LARGE_ELEMENTS)
    num_bytes = 4 * _LARGE_ELEMENTS
    message_s, large_message_s = _messages(_SMALL_ELEMENTS), _messages(_LARGE_ELEMENTS // 8)
    return Network(
        machines,
        each,
        PAYLOAD * bytes_per_s,
        num_bytes / max(1e-9, large_s - small_s),
        small_s / 2,
        max(0.0, processor_s - small_processor_s) / num_bytes,
        small_processor_s,
        message_s,
        max(0.0, large_message_s - message_s) / (num_bytes // 8),
    )


_SMALL_ELEMENTS, _LARGE_ELEMENTS, _REPEATS, _MESSAGES = 64, 1 << 21, 7, 32


def _all_reduce(elements: int) -> tuple[float, float]:
    """Return the seconds in which two ranks on threads sum a tensor, and the processor's for each of them."""
    tensors = [torch.ones(elements) for _ in range(2)]
    return _of_two_ranks(lambda number, group: lambda: group.allreduce([tensors[number]]).wait())


def _messages(elements: int) -> float:
    """Return the processor's seconds of a rank for a message: packed and sent, or received and unpacked."""
    values = torch.ones(elements)

    def rank(number: int, group: Any) -> Callable[[], None]:
        world: Any = SimpleNamespace(
            watched=lambda what: nullcontext(), progress=SimpleNamespace(collectives=0), occupancy=Occupancy()
        )
        engine, box = engines[number], Variable("box")
        channel = Channel(world, engine, "messages")

        def move() -> Work:
            row = torch.cat([values]) if not number else torch.empty(elements)
            received.append(row)
            work: Work = group.broadcast(row, 0)
            return work

        def messages() -> None:
            ends = [
                channel.push(move, box, end=lambda: received.pop().clone(), name="message")
                for _ in range(_MESSAGES)
            ]
            ends[-1].wait()

        received: list[torch.Tensor] = []
        return messages

    with ThreadedEngine() as one, ThreadedEngine() as other:
        engines = (one, other)
        return _of_two_ranks(rank)[1] / _MESSAGES


def _of_two_ranks(work: Callable[[int, Any], Callable[[], Any]]) -> tuple[float, float]:
    """Return the least seconds in which two ranks on threads do something, and the processor's for each.

    Args:
        work: Returns what a rank does, from its number and its process group.
    """
    store, wall, processor = distributed.HashStore(), [], []
    started = threading.Barrier(2)

    def rank(number: int) -> None:
        options: Any = distributed.ProcessGroupGloo._Options()
        options._devices = [distributed.ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        options._timeout = timedelta(seconds=60)
        do = work(number, distributed.ProcessGroupGloo(store, number, 2, options))
        for _ in range(_REPEATS):
            started.wait()
            began, used = perf_counter(), process_time()
            do()
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
