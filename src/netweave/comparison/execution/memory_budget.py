"""The memory budget for the values of a comparison (decision 0186)."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.errors import UsageError
from netweave.graph.wording import bytes_text

if TYPE_CHECKING:
    from netweave.graph import Graph

USUAL_BYTES = 2_000_000_000
"""What a comparison takes at most unless it is allowed more: values beyond it are computed again instead.

More would hardly make it faster, since most values are looked up again soon or never.
"""

LEAST_BYTES = 1_000_000_000
"""Without a limit of the caller's, values may take this much however large the weights are."""

RESERVE_BYTES = 60_000_000
"""Taken by sessions of the runtime, by what they compute with, and by what is found out about the nets."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """The memory that a comparison may use.

    Of what is left for values, a half holds tensors of both nets; a quarter of that is what one slice of a
    net makes, and what the tests of layers hold besides. The rest is for what is made of single tensors.

    Attributes:
        total_bytes: What the process may take.
        taken_bytes: What it takes without any values: what was read, and what is still to be read.
        is_promised: Whether the caller asked for it, so that what does not fit is an error.
    """

    total_bytes: int
    taken_bytes: int
    is_promised: bool

    @classmethod
    def of(cls, memory: int | None, *nets: Graph) -> MemoryBudget:
        """Return the budget for some nets.

        Args:
            memory: Bytes that the process may take; None for half of what is free, if that much is useful.
            nets: The nets, read.
        """
        taken = process_bytes() + RESERVE_BYTES + sum(unread_bytes(net) for net in nets)
        if memory is not None:
            return cls(memory, taken, is_promised=True)
        free = free_bytes() // 2
        return cls(taken + min(free, max(USUAL_BYTES - taken, LEAST_BYTES)), taken, is_promised=False)

    @property
    def value_bytes(self) -> int:
        """Bytes of the tensors of both nets that may be held at once."""
        return max((self.total_bytes - self.taken_bytes) // 2, 1)

    def check(self, *, node: str, node_bytes: int, tensor_bytes: int) -> None:
        """Check that a node can be run within the budget, if that was promised.

        Args:
            node: Where the node stands.
            node_bytes: What it reads and makes.
            tensor_bytes: The largest tensor of these: A's, B's, and what tells them apart are there at once.

        Raises:
            UsageError: It cannot.
        """
        needed = self.taken_bytes + max(2 * node_bytes, 6 * tensor_bytes)
        if self.is_promised and needed > self.total_bytes:
            raise UsageError(
                f"{bytes_text(self.total_bytes)} of memory are too little for these nets: they take "
                f"{bytes_text(self.taken_bytes)} with their weights, and {node}, which reads and makes "
                f"{bytes_text(node_bytes)}, needs {bytes_text(needed - self.taken_bytes)} more; allow "
                f"{bytes_text(_rounded_up(needed))} (--memory), or compare at smaller sizes (--input-shape)"
            )


def unread_bytes(graph: Graph) -> int:
    """Return the bytes of the stored arrays of a net that are read, or computed, when they are looked at."""
    tensors = {id(value.const_value): value.const_value for value in graph.model.graph.initializers.values()}
    unread = (ir.LazyTensor, ir.ExternalTensor)
    return sum(tensor.nbytes for tensor in tensors.values() if isinstance(tensor, unread))


def process_bytes() -> int:
    """Return what this process takes of the memory; the most that it took where that is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_bytes() -> int:
    """Return the memory that is free: of the machine, or of the control group that the process is in."""
    free = [found for found in (_free_of_machine(), _free_of_group()) if found is not None]
    return min(free, default=2 * USUAL_BYTES)


def _free_of_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        (kilobytes,) = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
        return int(kilobytes) * 1024
    except (OSError, ValueError):
        return None


def _free_of_group(mount: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return what the control group (cgroups v2) may still take; None if it has no limit."""
    try:
        limit, current = ((mount / f"memory.{name}").read_text().strip() for name in ("max", "current"))
        return max(int(limit) - int(current), 0)
    except (OSError, ValueError):
        return None


def _rounded_up(num_bytes: int, digits: int = 2) -> int:
    """Return a number of bytes with a few digits, not less.

    >>> _rounded_up(1_234_567)
    1300000
    """
    unit: int = 10 ** max(len(str(num_bytes)) - digits, 0)
    return -(-num_bytes // unit) * unit
