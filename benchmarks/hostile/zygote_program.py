"""The process that ``zygote`` forks programs from; run by path, with h5py and NumPy alone."""

from __future__ import annotations

import json
import multiprocessing.connection  # noqa: F401 - the programs need it too
import os
import resource  # noqa: F401
import signal
import socket
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py  # noqa: F401 - what takes long to import
import numpy as np  # noqa: F401

if TYPE_CHECKING:
    import types

MAX_MESSAGE = 1 << 16


@cache
def _code(program: str) -> types.CodeType:
    return compile(Path(program).read_bytes(), program, "exec")


def _start(link: socket.socket, request: dict[str, Any], fds: list[int]) -> int:
    program, *arguments = request["words"]
    code = _code(program)
    pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    status = 1
    try:
        link.close()
        # socket.send_fds gives other numbers than the arguments name
        names = {str(old): str(new) for old, new in zip(request["fds"], fds, strict=True)}
        os.chdir(request["cwd"])
        sys.argv = [program, *(names.get(word, word) for word in arguments)]
        exec(code, {"__name__": "__main__", "__file__": program})
        status = 0
    finally:
        os._exit(status)


def _reap(request: dict[str, Any]) -> dict[str, Any]:
    _, status, usage = os.wait4(request["pid"], 0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": usage.ru_utime + usage.ru_stime,
        "max_bytes": usage.ru_maxrss << 10,
    }


def main(descriptor: str) -> None:
    """Start and reap programs until the other side closes the socket."""
    link = socket.socket(fileno=int(descriptor))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        content, fds, _, _ = socket.recv_fds(link, MAX_MESSAGE, 8)
        if not content:
            return
        request = json.loads(content)
        match request["do"]:
            case "start":
                answer: dict[str, Any] = {"pid": _start(link, request, fds)}
            case "reap":
                answer = _reap(request)
            case _:
                answer = {}
        link.send(json.dumps(answer).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
