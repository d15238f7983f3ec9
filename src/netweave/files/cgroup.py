"""Limits on a sandboxed process and all that it starts together, by a control group (cgroups v2) of its own.

Limits of a process (``prlimit``) hold for each one that it starts anew, and do not count what lies in file
systems in memory. A control group counts everything once. It needs a place where this process may make groups
(a container that may write to its cgroups, the session of a desktop, a service of systemd with
``Delegate=memory pids`` and ``DelegateSubgroup=main``). Where there is none, the other limits hold alone
(docs/decisions/0170).
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MOUNT = Path("/sys/fs/cgroup")
OWN = Path("/proc/self/cgroup")

CONTROLLERS = frozenset({"memory", "pids"})

REMOVE_S = 2.0
"""So long it is tried to remove a group whose processes were killed, which takes the kernel a moment."""


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A control group of one sandboxed process.

    Attributes:
        folder: Its folder under the mount of cgroups v2.
    """

    folder: Path

    def enter(self, command: Sequence[str]) -> list[str]:
        """Return a command that joins the group, and then becomes another.

        A process joins before it runs anything of a stranger's; the shell is replaced by the command.

        Args:
            command: What is run in the group.
        """
        return ["/bin/sh", "-c", 'echo 0 >"$0" && exec "$@"', str(self.folder / "cgroup.procs"), *command]

    def ran_out_of_memory(self) -> bool:
        """Return whether a process of the group was ended for want of memory."""
        counts = dict(line.split() for line in _lines(self.folder / "memory.events"))
        return int(counts.get("oom_kill", "0")) > 0


@contextmanager
def limited_group(*, memory_bytes: int, processes: int) -> Iterator[Cgroup | None]:
    """Make a control group, and remove it with all that runs in it; None where none can be made.

    Args:
        memory_bytes: Memory of all its processes, with their files in memory.
        processes: Number of its processes and threads.
    """
    group = _make(memory_bytes, processes)
    try:
        yield group
    finally:
        if group is not None:
            _remove(group.folder)


def parent_folder() -> Path | None:
    """Return the group in which this process may make others that have limits; None if there is none.

    Groups with limits cannot be made in one that has processes (the root apart), and so mostly not in this
    process's own, but beside it.
    """
    own = next((line.partition("::")[2] for line in _lines(OWN) if line.startswith("0::")), None)
    if own is None or not (MOUNT / "cgroup.controllers").is_file():
        return None
    folder = MOUNT / own.strip().lstrip("/")
    for parent in (folder, folder.parent):
        if not parent.is_relative_to(MOUNT):
            continue
        enabled = " ".join(_lines(parent / "cgroup.subtree_control")).split()
        is_ours = all(os.access(path, os.W_OK) for path in (parent, parent / "cgroup.procs"))
        if set(enabled) >= CONTROLLERS and is_ours:
            return parent
    return None


def _make(memory_bytes: int, processes: int) -> Cgroup | None:
    parent = parent_folder()
    if parent is None:
        return None
    folder = parent / f"netweave-{uuid.uuid4().hex}"
    try:
        folder.mkdir()
        (folder / "memory.max").write_text(str(memory_bytes))
        (folder / "memory.oom.group").write_text("1")
        (folder / "pids.max").write_text(str(processes))
        with suppress(FileNotFoundError):  # a kernel without swap
            (folder / "memory.swap.max").write_text("0")
    except OSError:  # read-only, or more groups than are allowed
        _remove(folder)
        return None
    return Cgroup(folder)


def _remove(folder: Path) -> None:
    """End what runs in a group, and remove it."""
    with suppress(OSError):
        (folder / "cgroup.kill").write_text("1")  # since Linux 5.14; before, the sandbox's own end must do
    until = time.monotonic() + REMOVE_S
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                return
            time.sleep(0.01)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
