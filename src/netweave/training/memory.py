"""Memory for training on a CPU: what large tensors give back stays with the process.

A step allocates and frees the same large buffers over and over. glibc asks the system for each of them anew
and gives it back, and the system clears every page: to fill a fresh buffer takes four times as long as a used
one.
"""

from __future__ import annotations

from netweave.runtime.engine.malloc import M_ARENA_MAX, M_MMAP_MAX, M_TRIM_THRESHOLD, set_malloc

NEVER = -1
"""The size above which free memory at the end is given back; of positive ones 2 GiB would be the most."""


def keep_memory() -> bool:
    """Have freed memory used again instead of given back; say whether the C library can.

    It must come before the threads that compute are started: a thread stays with its first arena, and
    only the first of all arenas holds buffers of any size.
    """
    return set_malloc({M_ARENA_MAX: 1, M_MMAP_MAX: 0, M_TRIM_THRESHOLD: NEVER})
