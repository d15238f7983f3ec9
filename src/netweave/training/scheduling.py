"""Scheduling of the processors between the passes and the threads that exchange.

A rank computes with all processors it has, so the threads that send and receive need one of them for some
microseconds now and then. Linux lets a thread finish its slice, some 1 to 3 ms, before another one that has
woken runs; a collective of several messages waits that long before each of them, and the link stands idle.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

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
