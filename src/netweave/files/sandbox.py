"""The guarded child process: running a program over files that hold code.

The guard is bubblewrap (``bwrap``): the child sees no network, no other processes, read-only the
interpreter, its packages and the given files, and one empty folder that it may write to. Time, memory,
processes and what it writes are limited, and a filter keeps it from system calls that no model needs
(``seccomp``); a child of root becomes an unprivileged user of its own, since the limit on processes does not
bind root and counts all processes of a user. Without the guard nothing runs, unless the caller trusts the
files.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import CodeError
from netweave.files.cgroup import Cgroup, limited_group
from netweave.files.readable_copies import readable_copies
from netweave.files.sandbox_limits import Limits, check_files_in_memory, check_written
from netweave.files.seccomp import seccomp_filter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

USERS = range(61184, 65520)
"""Users and groups that a child of root runs as, one of them each; those of systemd's DynamicUser, which
belong to nobody."""

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
"""Where programs and libraries of the system lie."""

MAX_ANSWER_BYTES = 2 << 30
"""A file that a child leaves is at most so large: protocol buffers end there."""

MIN_HOLE_BYTES, HOLE_FACTOR = 1 << 26, 20
"""A larger file that takes a twentieth of its size on the disk is a hole; compression does not go as far."""

MAX_OPEN_FILES = 1024
"""Open files of a process of a child: each socket holds memory of the kernel that no limit counts."""

MAX_RESERVED_BYTES = 64 << 30
"""Addresses beyond its memory that a process may reserve, as allocators do for each thread; the kernel's
tables for terabytes that are only read take gigabytes."""

WATCH_S = 0.2
"""How often it is looked at what a child has written."""

MAX_REPORT_BYTES = 16_384
"""Of what the child prints, this much of the end is kept."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The way in which a child process ended.

    Attributes:
        status: Its exit status; negative for a signal.
        report: The end of what it printed.
        folder: The folder that it wrote to.
    """

    status: int
    report: str
    folder: Path

    def file(self, name: str, *, most_bytes: int = MAX_ANSWER_BYTES) -> Path | None:
        """Return a plain file that the child left; None if there is none, a link included.

        Args:
            name: Its name.
            most_bytes: A larger file is taken for none; so is one that is mostly a hole, which says nothing
                and would fill the memory of whoever reads it.
        """
        path = self.folder / name
        try:
            status = path.lstat()
        except OSError:
            return None
        is_hole = status.st_size > MIN_HOLE_BYTES and 512 * status.st_blocks < status.st_size // HOLE_FACTOR
        is_good = stat.S_ISREG(status.st_mode) and status.st_size <= most_bytes and not is_hole
        return path if is_good else None


def has_guard() -> bool:
    """Return whether bubblewrap is installed."""
    return shutil.which("bwrap") is not None


@contextmanager
def run_guarded(
    program: Path,
    arguments: Sequence[str],
    *,
    readable: Sequence[Path],
    place: str,
    trust: bool = False,
    limits: Limits | None = None,
) -> Iterator[Outcome]:
    """Run a Python program over files that hold code; its folder is there until the context ends.

    Args:
        program: The program; it may import Netweave.
        arguments: Its arguments; the folder that it may write to is its working folder.
        readable: The files that it may read.
        place: The file that holds the code, for messages.
        trust: Run it without the guard, as the caller himself.
        limits: What it may use.

    Raises:
        CodeError: There is no guard and no trust, or time or memory ran out.
    """
    limits = (limits or Limits()).inherited()
    if not trust and not has_guard():
        raise CodeError(
            "holds code, which runs only in a guarded process, and the guard is not here: install "
            "bubblewrap (bwrap), or say that you trust the file (--trust, trust=True)",
            place=place,
        )
    with _scratch_folder() as outer:
        folder = outer / "child"
        folder.mkdir()
        folder.chmod(0o711)  # the guard goes in before it stops being root; around it all is closed
        # -P: the folder of the program holds modules of ours, which no model may find by their short names
        if trust:
            command = [*_limited(limits, guarded=False), sys.executable, "-P", str(program), *arguments]
            environment = _environment_of_user()
            yield _run(command, folder, outer / "report", limits=limits, place=place, environment=environment)
            return
        command = [sys.executable, "-P", "-s", str(program), *arguments]
        user = random.choice(USERS)
        if os.geteuid() == 0:
            os.chown(folder, user, user)
        inside = [*_limited(limits, guarded=True), *_unprivileged(user), *command]
        copies = readable_copies(readable, outer / "readable") if os.geteuid() == 0 else {}
        bounds = {"memory_bytes": limits.memory_bytes, "processes": limits.processes}
        with _filter_file(outer / "filter") as filtered, limited_group(**bounds) as group:
            seccomp = [] if filtered is None else ["--seccomp", str(filtered)]
            guard = _guard(folder, [program, *readable], copies, limits)
            command = [*guard, *seccomp, "--", *inside]
            yield _run(
                command,
                folder,
                outer / "report",
                limits=limits,
                place=place,
                guarded=True,
                kept=() if filtered is None else (filtered,),
                group=group,
            )


@contextmanager
def _scratch_folder() -> Iterator[Path]:
    """Make a folder, and remove it with all that a child left in it, however deep."""
    folder = Path(tempfile.mkdtemp(prefix="netweave-")).resolve()
    try:
        yield folder
    finally:
        try:
            shutil.rmtree(folder)
        except (OSError, RecursionError):  # thousands of folders in each other
            subprocess.run(["rm", "-rf", "--", str(folder)], check=False, stderr=subprocess.DEVNULL)


@contextmanager
def _filter_file(path: Path) -> Iterator[int | None]:
    """Write the filter of system calls and give its descriptor; None where there is no filter."""
    content = seccomp_filter()
    if content is None:
        yield None
        return
    path.write_bytes(content)
    with path.open("rb") as file:
        yield file.fileno()


def _run(
    command: Sequence[str],
    folder: Path,
    report: Path,
    *,
    limits: Limits,
    place: str,
    guarded: bool = False,
    kept: tuple[int, ...] = (),
    group: Cgroup | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    with report.open("wb") as output:
        child = subprocess.Popen(
            command if group is None else group.enter(command),
            cwd=folder,
            env=_environment(folder) if environment is None else environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=kept,
        )
        try:
            status = _wait(child, folder, report, limits=limits, place=place, guarded=guarded)
        finally:
            _end(child)
    check_written(folder, limits, place)
    text = _tail(report)
    is_out_of_memory = any(
        words in text for words in ("MemoryError", "can't allocate memory", "std::bad_alloc")
    )
    if status and (is_out_of_memory or (group is not None and group.ran_out_of_memory())):
        raise CodeError(f"its code needs more than {limits.memory_bytes:,} bytes of memory", place=place)
    return Outcome(status, text, folder)


def _wait(
    child: subprocess.Popen[bytes],
    folder: Path,
    report: Path,
    *,
    limits: Limits,
    place: str,
    guarded: bool,
) -> int:
    """Wait for a child while it stays within its limits, and return its status."""
    until = time.monotonic() + limits.seconds
    while True:
        try:
            return child.wait(min(WATCH_S, max(0.0, until - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= until:
                raise CodeError(
                    f"its code ran longer than {limits.seconds:g} seconds and was stopped", place=place
                ) from None
        check_written(folder, limits, place)
        if guarded:
            check_files_in_memory(child.pid, limits, place)
        if report.stat().st_size > limits.file_bytes:
            raise CodeError(f"its code prints more than {limits.file_bytes:,} bytes", place=place)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and all that it started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _tail(report: Path) -> str:
    with report.open("rb") as file:
        file.seek(max(0, report.stat().st_size - MAX_REPORT_BYTES))
        return file.read().decode("utf-8", errors="replace")


def _environment(folder: Path) -> dict[str, str]:
    """Return an environment that tells nothing of the caller's."""
    return {
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(_package().parent),
        "TMPDIR": str(folder),
        "USER": "nobody",
    }


def _environment_of_user() -> dict[str, str]:
    """Return the environment of the caller, whom trusted code belongs to: home, PYTHONPATH, proxies."""
    paths = [str(_package().parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONDONTWRITEBYTECODE": "1"}


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


def _limited(limits: Limits, *, guarded: bool) -> list[str]:
    """Return the words that set the limits; nothing where the system has no ``prlimit``."""
    if shutil.which("prlimit") is None:
        return []
    words = [f"--data={limits.memory_bytes}", f"--fsize={limits.file_bytes}", "--core=0"]
    if guarded:
        words += [f"--nproc={limits.processes}", f"--nofile={MAX_OPEN_FILES}"]
        words.append(f"--as={limits.memory_bytes + MAX_RESERVED_BYTES}")
    return ["prlimit", *words, "--"]


def _unprivileged(user: int) -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"]


def _guard(folder: Path, readable: Sequence[Path], copies: Mapping[Path, Path], limits: Limits) -> list[str]:
    # by its path: the child's environment names the folders of the system alone
    words = [shutil.which("bwrap") or "bwrap", "--die-with-parent", "--new-session", "--unshare-ipc"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user"]
    words += ["--proc", "/proc", "--dev", "/dev"]
    for place in ("/tmp", "/dev/shm"):
        words += ["--perms", "1777", "--size", str(limits.shared_bytes), "--tmpfs", place]
    visible = _visible(readable)
    for parent in _parents([*visible, folder]):  # made by bwrap itself, they would be for root only
        words += ["--perms", "0755", "--dir", str(parent)]
    for path in visible:
        words += ["--ro-bind-try", str(copies.get(path, path)), str(path)]
    words += ["--bind", str(folder), str(folder)]
    # what bwrap makes lies in memory without a limit, and belongs to whoever is not root
    for place in ("/dev", "/"):
        words += ["--remount-ro", place]
    return [*words, "--chdir", str(folder)]


def _visible(readable: Sequence[Path]) -> list[Path]:
    """Return what the child may read, each once, without what lies in another."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()}
    paths = {Path(path) for path in (*SYSTEM, *prefixes)} | {_package(), *(p.resolve() for p in readable)}
    paths |= {Path(path).resolve() for path in prefixes}
    return sorted(path for path in paths if not paths.intersection(path.parents))


def _parents(paths: Sequence[Path]) -> list[Path]:
    """Return the folders around paths, outermost first."""
    return sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
