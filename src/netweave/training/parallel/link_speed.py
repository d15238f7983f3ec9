"""The size of a slice: 20 to 40 ms of the link, so that overhead is small and priorities act."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import distributed

if TYPE_CHECKING:
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
