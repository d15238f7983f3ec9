"""OpenMP threads: how many compute, and one team for training, that of the lane that computes the net.

Every thread that calls a parallel kernel of torch's gets helpers of its own, which stay. As soon as there
are more of them than processors, GNU's OpenMP lets all of them sleep between two kernels instead of waiting
awake, and waking takes longer than many a kernel.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OMP_PAUSE_SOFT = 1
"""Kind of ``omp_pause_resource_all`` (OpenMP 5.0, section 3.2.44): settings stay."""


def release_threads() -> bool:
    """End the helpers of the calling thread, which gets new ones when it needs them; say whether that went.

    Costs some microseconds where there are none.
    """
    pause = _gnu_pause()
    return pause is not None and pause(OMP_PAUSE_SOFT) == 0


@cache
def _gnu_pause() -> Callable[[int], int] | None:
    """Return ``omp_pause_resource_all`` of GNU's OpenMP; in LLVM's it is about all threads together."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "GOMP_parallel") or hasattr(process, "__kmpc_fork_call"):
        return None
    found: Callable[[int], int] | None = getattr(process, "omp_pause_resource_all", None)
    return found


def single_thread() -> bool:
    """Have the calling thread compute by itself, without helpers; say whether that went."""
    return compute_threads(1)


def compute_threads(count: int) -> bool:
    """Have the calling thread compute with so many threads, itself included; say whether that went."""
    torch.get_num_threads()  # a thread's first call takes over the process's number, so it comes first
    threads = getattr(ctypes.CDLL(None), "omp_set_num_threads", None)
    if threads is None:
        return False
    threads(count)
    return True


@contextmanager
def computing_with(count: int) -> Iterator[None]:
    """Have the calling thread compute with so many threads inside; other threads keep their number."""
    before = torch.get_num_threads()
    if count == before or not compute_threads(count):
        yield
        return
    try:
        yield
    finally:
        compute_threads(before)
