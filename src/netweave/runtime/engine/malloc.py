"""Settings of glibc's ``malloc`` for large buffers that are freed."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Mapping

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX, M_ARENA_MAX = -1, -3, -4, -8
"""Parameters of glibc's ``mallopt`` (malloc.h)."""

LARGE_BYTES = 1 << 20
"""Buffers of this size and above are given back as soon as they are freed."""


def set_malloc(wanted: Mapping[int, int]) -> bool:
    """Set parameters of the C library's allocator for this process; say whether it has them.

    Args:
        wanted: Values by parameter.
    """
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(mallopt(parameter, value) for parameter, value in wanted.items())


def give_back_large_buffers() -> bool:
    """Have each large buffer given back to the system when it is freed; say whether the C library can.

    By itself glibc raises the bound up to which buffers come from its heap to the largest one that was freed.
    Where some of them are kept and others dropped, as by a store of tensors, that heap is full of gaps:
    comparing PSPNet took 1.3 GB more than what was held.
    """
    return set_malloc({M_MMAP_THRESHOLD: LARGE_BYTES})
