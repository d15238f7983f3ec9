"""Filter of system calls."""

from __future__ import annotations

import errno
import gc
import json
import os
import platform
import re
import socket
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave import errors
from netweave.errors import CodeError, NetweaveError, SourceError, UsageError
from netweave.files.reading_cache import IMPORTED

if TYPE_CHECKING:
    from netweave.files.sandbox import Outcome


# The guard's namespaces take away files, network and other processes; the kernel behind them is still
# there. The filter takes away what a model never needs and what has let others out before: namespaces of
# users, keys, mounting, tracing, ``bpf``, ``io_uring``, sockets of virtual machines, and memory that no
# limit counts (shared maps without a file, ``memfd``, System V). See docs/decisions/0173.

_LD, _JEQ, _JGE, _JSET, _AND, _RET = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Where ``struct seccomp_data`` has the number of the call, the architecture and the arguments."""

NAMESPACES = 0x7E020000
"""Flags of ``clone`` that make namespaces: of mounts, cgroups, names, IPC, users, processes and network."""

FAMILIES = (1, 2, 10, 16)
"""Families of sockets that are let through: UNIX, IPv4, IPv6, netlink; the network behind them is empty."""

_MAP_KIND, _MAP_SHARED_ANONYMOUS = 0x2F, 0x21

_SAME = {
    "open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
    "mount_setattr": 442, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "pidfd_getfd": 438, "process_madvise": 440, "memfd_secret": 447,
}  # fmt: skip
"""Calls that have the same number everywhere, as all since Linux 5.0."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The numbers of system calls of one architecture (``asm/unistd.h``).

    Attributes:
        audit: Its number in ``linux/audit.h``.
        denied: Calls that fail, by name.
        clone: Number of ``clone``.
        socket: Number of ``socket``.
        mmap: Number of ``mmap``.
        compatible: The first number of a second set of calls (x32), which fail; 0 if there is none.
    """

    audit: int
    clone: int
    socket: int
    mmap: int
    compatible: int = 0
    denied: dict[str, int] = field(default_factory=dict)


CLONE3 = 435
"""Its flags lie in memory, where a filter cannot look; C libraries take ``clone`` where it is missing."""

MACHINES = {
    "x86_64": Machine(
        audit=0xC000003E,
        clone=56,
        socket=41,
        mmap=9,
        compatible=0x40000000,
        denied=_SAME
        | {
            "unshare": 272, "setns": 308, "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161,
            "keyctl": 250, "add_key": 248, "request_key": 249, "ptrace": 101, "process_vm_readv": 310,
            "process_vm_writev": 311, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
            "memfd_create": 319, "shmget": 29, "shmat": 30, "shmctl": 31, "semget": 64, "msgget": 68,
            "mq_open": 240, "open_by_handle_at": 304, "name_to_handle_at": 303, "kexec_load": 246,
            "init_module": 175, "finit_module": 313, "delete_module": 176, "quotactl": 179, "acct": 163,
            "syslog": 103, "kcmp": 312, "vhangup": 153, "reboot": 169, "swapon": 167, "swapoff": 168,
            "settimeofday": 164, "clock_settime": 227,
        },
    ),
    "aarch64": Machine(
        audit=0xC00000B7,
        clone=220,
        socket=198,
        mmap=222,
        denied=_SAME
        | {
            "unshare": 97, "setns": 268, "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51,
            "keyctl": 219, "add_key": 217, "request_key": 218, "ptrace": 117, "process_vm_readv": 270,
            "process_vm_writev": 271, "bpf": 280, "perf_event_open": 241, "userfaultfd": 282,
            "memfd_create": 279, "shmget": 194, "shmat": 196, "shmctl": 195, "semget": 190, "msgget": 186,
            "mq_open": 180, "open_by_handle_at": 265, "name_to_handle_at": 264, "kexec_load": 104,
            "init_module": 105, "finit_module": 273, "delete_module": 106, "quotactl": 60, "acct": 89,
            "syslog": 116, "kcmp": 272, "vhangup": 58, "reboot": 142, "swapon": 224, "swapoff": 225,
            "settimeofday": 170, "clock_settime": 112,
        },
    ),
}  # fmt: skip


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """Return the filter for a machine, as ``bwrap --seccomp`` reads it; None for one that is not known.

    Args:
        machine: Its name, as ``platform.machine`` gives it; this one if left out.
    """
    known = MACHINES.get(machine or platform.machine())
    if known is None:
        return None
    steps = [_step(_LD, _ARCHITECTURE), _step(_JEQ, known.audit, 1, 0), _step(_RET, _KILL)]
    steps.append(_step(_LD, _NUMBER))
    if known.compatible:
        steps += [_step(_JGE, known.compatible, 0, 1), _fail(errno.ENOSYS)]
    steps += [_step(_JEQ, CLONE3, 0, 1), _fail(errno.ENOSYS)]
    for number in sorted(known.denied.values()):
        steps += [_step(_JEQ, number, 0, 1), _fail(errno.EPERM)]
    steps += _checked(known.clone, 0, [_step(_JSET, NAMESPACES, 0, 1), _fail(errno.EPERM)])
    families = [_step(_JEQ, family, len(FAMILIES) - index, 0) for index, family in enumerate(FAMILIES)]
    steps += _checked(known.socket, 0, [*families, _fail(errno.EPERM)])
    shared = [_step(_AND, _MAP_KIND), _step(_JEQ, _MAP_SHARED_ANONYMOUS, 0, 1), _fail(errno.ENOMEM)]
    steps += _checked(known.mmap, 3, shared)
    return b"".join([*steps, _step(_RET, _ALLOW)])


def _checked(number: int, argument: int, checks: list[bytes]) -> list[bytes]:
    """Return steps that look at an argument of one call; what passes the checks is allowed."""
    body = [_step(_LD, _ARGUMENTS + 8 * argument), *checks, _step(_RET, _ALLOW)]
    return [_step(_JEQ, number, 0, len(body)), *body]


def _fail(number: int) -> bytes:
    return _step(_RET, _ERRNO | number)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one ``struct sock_filter``."""
    return struct.pack("<HBBI", code, if_true, if_false, value)


ERROR = "error.json"

ON_SOCKET = "--on-socket"
"""Argument of a child that stays: its requests are lines on its standard input, which is a socket."""

ERRORS = {
    name: getattr(errors, name)
    for name in ("CodeError", "ReadError", "ShapeError", "UnsupportedError", "UsageError", "WeightError")
}
"""What a child may say that is wrong."""

MAX_BYTES = 1 << 20


def answer(work: Callable[[dict[str, Any]], object]) -> None:
    """Do a child's work with each request that it is given, and leave what goes wrong as a file.

    Args:
        work: What it does; its request is the program's first argument, as JSON, with ``net`` (the resolved
            file of code) and ``place`` (its name for messages); it may add ``beside``, the names of other
            resolved files of code. A child that stays gets its requests on a socket, and says when the files
            of an answer are there.
    """
    gc.freeze()  # what was imported is never garbage
    gc.enable()
    if sys.argv[1] != ON_SOCKET:
        _do(work, json.loads(sys.argv[1]))
        return
    with socket.socket(fileno=os.dup(0)) as channel, channel.makefile("rb") as requests:
        nothing = os.open(os.devnull, os.O_RDONLY)  # for code that reads its standard input
        os.dup2(nothing, 0)
        os.close(nothing)
        for request in requests:
            _do(work, json.loads(request))
            channel.sendall(b".")


def _do(work: Callable[[dict[str, Any]], object], asked: dict[str, Any]) -> None:
    try:
        work(asked)
        files = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
        Path(IMPORTED).write_text(json.dumps(sorted(file for file in files if isinstance(file, str))))
    except MemoryError:
        raise
    except BaseException as error:  # noqa: BLE001 - a model's code may even exit
        made = as_error(error, asked)
        row = {
            "error": type(made).__name__,
            "message": made.message if isinstance(made, SourceError) else str(made),
            "place": made.place if isinstance(made, SourceError) else None,
            "open_inputs": made.open_inputs if isinstance(made, SourceError) else (),
            "unknown_inputs": made.unknown_inputs if isinstance(made, UsageError) else (),
        }
        Path(ERROR).write_text(json.dumps(row))
        sys.exit(1)


def as_error(error: BaseException, request: dict[str, Any]) -> NetweaveError:
    """Return an error of the model's code as one of Netweave's: line, kind and message."""
    names = {request["net"]: request["place"], **request.get("beside", {})}
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        frames.append((error.filename, error.lineno))
    places = [f"{names[file]}:{line}" for file, line in frames if file in names]
    place = places[-1] if places else request["place"]
    if isinstance(error, SourceError):
        open_inputs = error.open_inputs
        return error if error.place else type(error)(error.message, place=place, open_inputs=open_inputs)
    if isinstance(error, UsageError):
        return UsageError(f"{request['place']}: {error}", unknown_inputs=error.unknown_inputs)
    if isinstance(error, NetweaveError):
        return type(error)(f"{request['place']}: {error}")
    text = " ".join(str(error).split())[:300]
    advice = _advice(error, request)
    return CodeError(f"its code fails: {type(error).__name__}: {text}{advice}", place=place)


_LITERAL = re.compile(r"\b(list|tuple|dict|Settings|int|float|str|bool|NoneType)\b")
"""The type of an argument, in the message of code that cannot do anything with it."""


def _advice(error: BaseException, request: dict[str, Any]) -> str:
    """Return what helps against an error that comes from what the code was given, or from the sandbox."""
    if request.get("missing") and "Absent" in str(error):  # the type that stands for what is not there
        packages = ", ".join(request["missing"])
        return f"; 'Absent' is something of a package that is not installed here: install it ({packages})"
    is_of_literal = isinstance(error, AttributeError | TypeError) and _LITERAL.search(str(error))
    if request.get("arguments") and is_of_literal:
        return (
            "; its arguments are literals: where it takes an example of its input, give its sizes, such as "
            "torch.zeros(1, 3, 224, 224); where it takes modules or other objects, write a function that "
            "constructs it, and name that one"
        )
    if request.get("trusted_folder") or not isinstance(error, OSError | ModuleNotFoundError):
        return ""
    return (
        "; the sandbox hides the network, PYTHONPATH and all files but the modules that the code imports: "
        "--root FOLDER says where its imports start, and --trust runs code that you trust as you would"
    )


def failure(outcome: Outcome, place: str) -> NetweaveError:
    """Return the error that a child told of, or what is known of its end."""
    told = outcome.file(ERROR)
    row = _row(told) if told else None
    name = row.get("error") if isinstance(row, dict) else None
    if isinstance(row, dict) and isinstance(name, str) and name in ERRORS:
        kind, message = ERRORS[name], str(row.get("message"))
        where = str(row.get("place") or place)
        if kind is UsageError:
            return UsageError(message, unknown_inputs=_names(row.get("unknown_inputs")))
        made: NetweaveError = kind(message, place=where, open_inputs=_names(row.get("open_inputs")))
        return made
    last = outcome.report.strip().splitlines()[-1:] or ["without a word"]
    return CodeError(
        f"the process that read it ended with status {outcome.status}: {last[0][:300]}", place=place
    )


def _names(told: Any) -> tuple[str, ...]:
    """Return names that a child told of, which may have been made to say anything."""
    names = told if isinstance(told, list) else []
    return tuple(str(name)[:200] for name in names[:100])


def _row(path: Path) -> Any:
    if path.stat().st_size > MAX_BYTES:
        return None
    try:
        return json.loads(path.read_bytes())
    except (RecursionError, ValueError):
        return None
