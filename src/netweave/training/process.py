"""Memory and scheduling of a process that trains on a CPU, and the limit on the memory of a run."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from netweave.runtime.engine.malloc import M_ARENA_MAX, M_MMAP_MAX, M_TRIM_THRESHOLD, set_malloc
from netweave.runtime.memory_plan import Recomputation, TrainingMemory, plan_training

if TYPE_CHECKING:
    from torch import Tensor

    from netweave.job import Job
    from netweave.runtime.backends.torch import TorchNet
    from netweave.runtime.backends.torch.stages import Stage
    from netweave.training.optim import Updater
    from netweave.training.rank_exchange import RankExchange

# A step allocates and frees the same large buffers over and over. glibc asks the system for each of them
# anew and gives it back, and the system clears every page: to fill a fresh buffer takes four times as long
# as a used one.

NEVER = -1
"""The size above which free memory at the end is given back; of positive ones 2 GiB would be the most."""


def keep_memory() -> bool:
    """Have freed memory used again instead of given back; say whether the C library can.

    It must come before the threads that compute are started: a thread stays with its first arena, and
    only the first of all arenas holds buffers of any size.
    """
    return set_malloc({M_ARENA_MAX: 1, M_MMAP_MAX: 0, M_TRIM_THRESHOLD: NEVER})


# A rank computes with all processors it has, so the threads that send and receive need one of them for some
# microseconds now and then. Linux lets a thread finish its slice, some 1 to 3 ms, before another one that
# has woken runs; a collective of several messages waits that long before each of them, and the link stands
# idle.

SLICE_NS = 20_000_000
"""Slice of a thread that computes. Whoever asks for a shorter one, as all do that ask for nothing, goes first
as long as it has had less than its share; the shares stay as they are (EEVDF, Linux 6.12 and later)."""

SYSCALLS = {"x86_64": 314, "aarch64": 274}
"""Number of ``sched_setattr`` by machine; the C library has no function for it before glibc 2.41."""

SCHED_ATTR = struct.Struct("=IIQiIQQQ")
"""``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period."""


def let_others_interrupt() -> bool:
    """Have the calling thread, which computes, give way to threads that wake; say whether the system can.

    Threads that it starts later do so too: the helpers of its parallel kernels.
    """
    number = SYSCALLS.get(platform.machine())
    if sys.platform != "linux" or number is None or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = SCHED_ATTR.pack(SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, SLICE_NS, 0, 0)
    return bool(ctypes.CDLL(None).syscall(number, 0, attributes, 0) == 0)


BATCHES = 6
"""Batches in memory: one that the net computes with, as it lies there, and those that the loader holds."""


def limit_memory(
    job: Job,
    nets: Mapping[str, TorchNet],
    updater: Updater,
    *,
    limit: int,
    stages: Sequence[Stage],
    ranks: RankExchange | None = None,
    kept: Collection[str] = (),
) -> Recomputation:
    """Have the training net compute values again, as few as a limit needs; return the plan.

    Args:
        job: The Job.
        nets: The net of each phase.
        updater: What changes the parameters.
        limit: Bytes, for all that the run holds; that of each rank.
        stages: Those that the training net is cut into.
        ranks: What is exchanged with other ranks, each of which computes a part of the batch.
        kept: Names of values that are looked at when forward ends.

    Raises:
        UsageError: No plan fits; the message says what would.
        UnsupportedError: The batch is normalised over ranks.
    """
    phase = job.phases["train"]
    batch = phase.data[0].batch_size if phase.data else 1
    if ranks is not None:
        ranks.check_memory_plan(phase.graph)
        batch = -(-batch // ranks.world.size)
    store = nets["train"].store
    tensors = [store[key] for key in store]
    state = (tensor for own in updater.state.values() for tensor in own.values())
    run = TrainingMemory(
        parameters=sum(_num_bytes(stored.tensor) for stored in tensors),
        solver=sum(map(_num_bytes, state)),
        batches=BATCHES,
        accumulate=job.solver.accumulate,
        exchange=0 if ranks is None else ranks.num_bytes,
    )
    plan = plan_training(
        phase.graph,
        batch=batch,
        limit=limit,
        run=run,
        losses=phase.losses,
        kept=kept,
        stages=[stage.nodes for stage in stages] if len(stages) > 1 else (),
    )
    nets["train"].recompute(plan.net, plan.names)
    return plan


def _num_bytes(tensor: Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
