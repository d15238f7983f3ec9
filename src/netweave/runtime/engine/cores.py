"""The number of cores to work on."""

from __future__ import annotations

import os


def num_cores() -> int:
    """Return the number of cores that this process may use, >= 1."""
    # the machine may have more: containers, batch systems and taskset give a process some of its cores
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
