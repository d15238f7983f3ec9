"""The program of a hostile model: it tries everything at once, and prints as JSON what it could do.

Run by ``run_guarded`` with a JSON request: ``secret`` (a file outside), ``outside`` (processes outside),
``port`` and ``socket`` (where a server and a UNIX socket of the machine listen), ``limits``.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import sys
import time
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
CALLS = {"x86_64": {"keyctl": 250, "bpf": 321, "userfaultfd": 323, "shmget": 29, "perf": 298, "memfd": 319}}
CALLS["aarch64"] = {"keyctl": 219, "bpf": 280, "userfaultfd": 282, "shmget": 194, "perf": 241, "memfd": 279}
NUMBERS = CALLS.get(platform.machine(), CALLS["x86_64"])
IO_URING, CLONE3, VSOCK, PACKET, ALG, NEW_USER = 425, 435, 40, 17, 38, 0x10000000
REQUEST = json.loads(sys.argv[1])
LIMITS = REQUEST["limits"]
done: list[str] = []


def attempt(name, work):
    """Note what could be done; errors of the system and -1 are refusals."""
    try:
        result = work()
    except (OSError, ValueError, OverflowError, AttributeError, MemoryError):
        return
    if not (isinstance(result, int) and result in (-1, 0xFFFFFFFF)) and result is not False:
        done.append(name)


def syscall(name, *arguments):
    return libc.syscall(NUMBERS[name], *arguments)


def pages(flags, protection, num_bytes):
    """Map memory and touch a byte in every large page, which takes memory for the tables of pages."""
    address = libc.mmap(None, ctypes.c_size_t(num_bytes), protection, flags, -1, ctypes.c_long(0))
    if address in (None, ctypes.c_void_p(-1).value):
        raise MemoryError
    return True


def fill(place):
    """Write more into a file system than a child may have."""
    with Path(f"{place}/fill").open("wb") as file:
        for _ in range((LIMITS["shared_bytes"] >> 20) + 16):
            file.write(bytes(1 << 20))
            file.flush()
    return True


def descriptors():
    """Open far more files than a model needs; each socket holds memory of the kernel."""
    held = []
    try:
        held.extend(socket.socketpair() for _ in range(20_000))
    finally:
        for pair in held:
            for one in pair:
                one.close()
    return True


def kernel():
    """Ask the kernel for what no model needs."""
    attempt("user namespace", lambda: libc.unshare(NEW_USER))
    attempt("clone3", lambda: libc.syscall(CLONE3, None, 0) == 0 or ctypes.get_errno() != errno.ENOSYS)
    attempt("namespace of process 1", lambda: libc.setns(os.open("/proc/1/ns/net", os.O_RDONLY), 0))
    attempt("keyctl", lambda: syscall("keyctl", 0, -3, 0))
    attempt("bpf", lambda: syscall("bpf", 0, None, 0))
    attempt("userfaultfd", lambda: syscall("userfaultfd", 0))
    attempt("perf", lambda: syscall("perf", None, 0, -1, -1, 0))
    attempt("io_uring", lambda: libc.syscall(IO_URING, 1, ctypes.create_string_buffer(256)))
    attempt("trace", lambda: libc.ptrace(16, os.getppid(), 0, 0))
    attempt("mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None))
    attempt("chroot", lambda: os.chroot("/tmp") or True)
    attempt("device", lambda: os.mknod("memory", 0o600 | 0o020000, os.makedev(1, 1)) or True)
    attempt("become root", lambda: os.setuid(0) or True)
    attempt("higher priority", lambda: os.nice(-5) <= 0)
    attempt("higher limits", lambda: resource.setrlimit(resource.RLIMIT_NPROC, (1 << 16, 1 << 16)) or True)
    attempt("settings of the kernel", lambda: Path("/proc/sys/kernel/core_pattern").write_text("|/bin/x"))


def network():
    """Reach anything outside."""
    attempt("vsock", lambda: socket.socket(VSOCK, socket.SOCK_STREAM))
    attempt("packets", lambda: socket.socket(PACKET, socket.SOCK_RAW))
    attempt("crypto", lambda: socket.socket(ALG, socket.SOCK_SEQPACKET))
    attempt("this machine", lambda: socket.create_connection(("127.0.0.1", REQUEST["port"]), 0.5))
    attempt("a UNIX socket", lambda: socket.socket(socket.AF_UNIX).connect(REQUEST["socket"]) or True)
    abstract = "\0" + REQUEST["socket"]
    attempt("an abstract socket", lambda: socket.socket(socket.AF_UNIX).connect(abstract) or True)
    attempt("other interfaces", lambda: [name for _, name in socket.if_nameindex()] != ["lo"])


def files_and_signals():
    """Read, write and signal what is outside."""
    attempt("read a file", lambda: Path(REQUEST["secret"]).read_text())
    attempt("write a file", lambda: Path(REQUEST["secret"]).write_text("x"))
    attempt("/etc/passwd", lambda: Path("/etc/passwd").read_text())
    attempt("write to the interpreter", lambda: Path(sys.prefix, "x").write_text("x"))
    attempt("write to /", lambda: Path("/x").write_text("x"))
    for process in REQUEST["outside"]:
        attempt("signal", lambda process=process: os.kill(process, signal.SIGKILL) or True)
        attempt("signal a group", lambda process=process: os.killpg(process, signal.SIGKILL) or True)


def memory():
    """Have more memory than is allowed, in each way that there is."""
    shared, private = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    write, read = mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ
    attempt("private memory", lambda: len(bytearray(LIMITS["memory_bytes"] * 2)))
    attempt("shared memory", lambda: pages(shared, write, 1 << 20))
    attempt("tables of pages", lambda: pages(private, read, 1 << 42))
    attempt("memfd", lambda: syscall("memfd", b"x", 0))
    attempt("System V", lambda: syscall("shmget", 0, 1 << 20, 0o1600))
    attempt("descriptors", descriptors)
    for place in (
        "/dev/shm",
        "/tmp",
        "/",
        "/dev",
        "/usr",
        "/proc",
        "/dev/pts",
        "/run",
        str(Path.cwd().parent),
    ):
        attempt(f"fill {place}", lambda place=place: fill(place))


def outlive():
    """Leave a process behind that is in a session of its own."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(0.05)
        os._exit(0)


def bomb():
    """Start processes until there are no more; each takes memory, and starts others."""
    count = 0
    while count < 2000:
        try:
            if os.fork() == 0:
                os.close(1)
                held = bytearray(1 << 20)
                while time.monotonic() < UNTIL:
                    try:
                        os.fork()
                    except OSError:
                        time.sleep(0.01)
                os._exit(len(held) & 0)
        except OSError:
            break
        count += 1


UNTIL = time.monotonic() + REQUEST["seconds"]


def main():
    """Try everything, then hold what could be had until time is out."""
    for work in (kernel, network, files_and_signals, memory):
        work()
    outlive()
    bomb()
    time.sleep(1)
    count = len(list(Path("/proc").glob("[0-9]*")))
    sys.stdout.write(json.dumps({"done": done, "processes": count}) + "\n")
    sys.stdout.flush()
    while time.monotonic() < UNTIL:
        time.sleep(0.05)


if __name__ == "__main__":
    main()
