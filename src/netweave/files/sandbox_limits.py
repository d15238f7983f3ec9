"""Limits on the resources of a sandboxed process, and checks of the files that it makes."""

from __future__ import annotations

import os
import resource
import stat
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from netweave.errors import CodeError

if TYPE_CHECKING:
    from pathlib import Path

MAX_DEPTH = 50
"""Folders in each other that a child may make."""

IN_MEMORY = ("/tmp", "/dev/shm")
"""File systems in memory that a child sees; their size is limited, but not the number of their files."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that a child process may use.

    Attributes:
        seconds: Time, > 0.
        memory_bytes: Memory of its data, of each process; of all together, where cgroups can be had.
        processes: Processes and threads, where the guard is; its user's together.
        file_bytes: Size of each file that it writes, and of all together.
        files: Number of files and folders that it writes.
        shared_bytes: Size of each file system in memory that it sees (``/tmp``, ``/dev/shm``).
    """

    seconds: float = 300.0
    memory_bytes: int = 16 << 30
    processes: int = 256
    file_bytes: int = 8 << 30
    files: int = 10_000
    shared_bytes: int = 64 << 20

    def inherited(self) -> Limits:
        """Return these limits, or the memory that this process itself may use where that is less.

        Whoever limits a process that reads nets limits what it starts to read them: the workbench sets
        ``max_memory_mb`` so.
        """
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        own = soft if soft != resource.RLIM_INFINITY else self.memory_bytes
        return replace(self, memory_bytes=min(self.memory_bytes, own))


def check_written(folder: Path, limits: Limits, place: str) -> None:
    """Check how much a child has written, which no limit of a process bounds.

    Args:
        folder: The folder that it may write to.
        limits: What it may use.
        place: The file that holds its code, for messages.

    Raises:
        CodeError: It has written too much.
    """
    num_files, num_bytes, waiting = 0, 0, [(str(folder), 0)]
    while waiting:
        path, depth = waiting.pop()
        with suppress(OSError), os.scandir(path) as entries:  # what it removes meanwhile
            for entry in entries:
                num_files += 1
                status = entry.stat(follow_symlinks=False)
                num_bytes += 512 * status.st_blocks
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((entry.path, depth + 1))
                if num_files > limits.files or depth > MAX_DEPTH or num_bytes > limits.file_bytes:
                    raise _too_much(limits, place)


def check_files_in_memory(sandbox: int, limits: Limits, place: str) -> None:
    """Check how many files a child has made in its file systems in memory: each takes memory of the kernel.

    Args:
        sandbox: The process of bubblewrap; its child sees what the sandboxed process does.
        limits: What it may use.
        place: The file that holds its code, for messages.

    Raises:
        CodeError: It has made too many.
    """
    with suppress(OSError):  # it ends meanwhile
        with open(f"/proc/{sandbox}/task/{sandbox}/children") as file:  # noqa: PTH123
            inner = file.read().split()
        for process, folder in ((process, folder) for process in inner for folder in IN_MEMORY):
            status = os.statvfs(f"/proc/{process}/root{folder}")
            if status.f_files - status.f_ffree > limits.files:
                raise _too_much(limits, place)


def _too_much(limits: Limits, place: str) -> CodeError:
    return CodeError(
        f"its code writes more than {limits.files:,} files, {limits.file_bytes:,} bytes or "
        f"{MAX_DEPTH} folders in each other",
        place=place,
    )
