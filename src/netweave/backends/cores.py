"""How many cores there are to work on."""

from __future__ import annotations

import os


def num_cores() -> int:
    """Number of cores that this process may use, >= 1."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
