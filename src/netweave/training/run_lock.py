"""One run at a time writes the checkpoints of a prefix: two would take, and remove, each other's files."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from netweave.errors import UsageError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from pathlib import Path


@contextlib.contextmanager
def exclusive(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file while a block runs; the system gives it up when the process dies, however it does.

    Where the file system has no locks, nothing is held.

    Args:
        path: The file, in a folder that is there; it is removed at the end.
        what: What is locked, in words for the message.

    Raises:
        UsageError: Another run holds it.
    """
    if sys.platform == "win32":
        yield
        return
    descriptor = _locked(path, what)
    try:
        yield
    finally:
        # removed before it is given up: whoever has opened it meanwhile finds its name gone, and tries anew
        path.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path, what: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 1000).decode(errors="replace") or "one that has just begun"
            os.close(descriptor)
            raise UsageError(
                f"another run ({holder}) is writing {what}; wait until it has ended, or give this one "
                "another prefix (snapshot_prefix)"
            ) from error
        except OSError:  # no locks here, as on some network file systems
            return descriptor
        if _is_named(path, descriptor):
            os.truncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
            return descriptor
        os.close(descriptor)


def _is_named(path: Path, descriptor: int) -> bool:
    """Return whether the name still leads to the file that is open."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
