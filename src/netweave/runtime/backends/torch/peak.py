"""The most multiply-adds per second that torch reaches here: what an achieved rate is held against."""

from __future__ import annotations

from functools import cache
from time import perf_counter

import torch

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
