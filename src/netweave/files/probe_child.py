"""The program that tries what a guarded child must not be able to do, and says what it could.

Run by path (see ``protections``); its argument is a file that it must not see.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket
import sys
from pathlib import Path

NEW_USER = 0x10000000


def _can(work: object) -> bool:
    try:
        return bool(work())  # type: ignore[operator]  # a type to import would slow each start
    except (OSError, MemoryError):
        return False


def _become_root() -> bool:
    os.setuid(0)
    return os.getuid() == 0


def main(secret: str) -> None:
    """Try everything, and print it as JSON."""
    libc = ctypes.CDLL(None, use_errno=True)
    protections = {
        "network": [name for _, name in socket.if_nameindex() if name != "lo"] != [],
        "files": _can(lambda: Path(secret).read_text()),
        "processes": len(list(Path("/proc").glob("[0-9]*"))) > 8,
        "root": _can(_become_root),
        "shared": _can(lambda: mmap.mmap(-1, 1 << 16)),
        "memory": _can(lambda: bytearray(1 << 31)),
        "kernel": libc.unshare(NEW_USER) == 0,  # last: what follows would be in another namespace
    }
    sys.stdout.write(json.dumps(protections) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
