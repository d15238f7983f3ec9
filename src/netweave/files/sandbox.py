"""The guarded child process: running a program over files that hold code.

The guard is bubblewrap (``bwrap``): the child sees no network, no other processes, read-only the
interpreter, its packages and the given files, and one empty folder that it may write to. Time, memory,
processes and file sizes are limited; a child of root becomes an unprivileged user, since the limit on
processes does not bind root. Without the guard nothing runs, unless the caller trusts the files.
"""

from __future__ import annotations

import os
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import CodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

NOBODY = 65534
"""User and group that a child of root runs as."""

SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
"""Where programs and libraries of the system lie."""

MAX_REPORT_BYTES = 16_384
"""Of what the child prints, this much of the end is kept."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use.

    Attributes:
        seconds: Time, > 0.
        memory_bytes: Memory of its data, of each process.
        processes: Processes and threads, where the guard is; its user's together.
        file_bytes: Size of each file that it writes.
    """

    seconds: float = 300.0
    memory_bytes: int = 16 << 30
    processes: int = 256
    file_bytes: int = 8 << 30


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a child ended.

    Attributes:
        status: Its exit status; negative for a signal.
        report: The end of what it printed.
        folder: The folder that it wrote to.
    """

    status: int
    report: str
    folder: Path

    def file(self, name: str) -> Path | None:
        """Return a plain file that the child left; None if there is none, a link included."""
        path = self.folder / name
        try:
            return path if stat.S_ISREG(path.lstat().st_mode) else None
        except OSError:
            return None


def has_guard() -> bool:
    """Whether bubblewrap is installed."""
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
    limits = limits or Limits()
    if not trust and not has_guard():
        raise CodeError(
            "holds code, which runs only in a guarded process, and the guard is not here: install "
            "bubblewrap (bwrap), or say that you trust the file (--trust, trust=True)",
            place=place,
        )
    with tempfile.TemporaryDirectory(prefix="netweave-") as outer:
        folder = Path(outer).resolve() / "child"
        folder.mkdir(mode=0o711)  # the guard goes in before it stops being root; around it all is closed
        command = [sys.executable, "-P", "-s", str(program), *arguments]
        if trust:
            command = [*_limited(limits, guarded=False), *command]
        else:
            if os.geteuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
            inside = [*_limited(limits, guarded=True), *_unprivileged(), *command]
            copies = _copies_for_nobody(readable, Path(outer) / "readable")
            command = [*_guard(folder, [program, *readable], copies), "--", *inside]
        yield _run(command, folder, Path(outer) / "report", limits=limits, place=place)


def _run(command: Sequence[str], folder: Path, report: Path, *, limits: Limits, place: str) -> Outcome:
    with report.open("wb") as output:
        child = subprocess.Popen(
            command,
            cwd=folder,
            env=_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = child.wait(limits.seconds)
        except subprocess.TimeoutExpired:
            raise CodeError(
                f"its code ran longer than {limits.seconds:g} seconds and was stopped", place=place
            ) from None
        finally:
            _end(child)
    text = _tail(report)
    if status and ("MemoryError" in text or "can't allocate memory" in text or "std::bad_alloc" in text):
        raise CodeError(f"its code needs more than {limits.memory_bytes:,} bytes of memory", place=place)
    return Outcome(status, text, folder)


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


def _package() -> Path:
    return Path(__file__).resolve().parents[1]


def _limited(limits: Limits, *, guarded: bool) -> list[str]:
    """Return the words that set the limits; nothing where the system has no ``prlimit``."""
    if shutil.which("prlimit") is None:
        return []
    words = [f"--data={limits.memory_bytes}", f"--fsize={limits.file_bytes}", "--core=0"]
    if guarded:
        words.append(f"--nproc={limits.processes}")
    return ["prlimit", *words, "--"]


def _unprivileged() -> list[str]:
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]


def _copies_for_nobody(readable: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Copy the files that a child of root could not open as ``nobody``; return the copies by file.

    A server keeps uploads as 0600. The mode of the file itself stays: the file may have other links.
    """
    copies: dict[Path, Path] = {}
    if os.geteuid() != 0:
        return copies
    for path in {path.resolve() for path in readable}:
        if path.is_file() and not path.stat().st_mode & stat.S_IROTH:
            folder.mkdir(exist_ok=True)
            copies[path] = folder / str(len(copies))
            shutil.copyfile(path, copies[path])
            copies[path].chmod(0o444)
    return copies


def _guard(folder: Path, readable: Sequence[Path], copies: Mapping[Path, Path]) -> list[str]:
    words = ["bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"]
    words += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        words += ["--unshare-user"]
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    visible = _visible(readable)
    for parent in _parents([*visible, folder]):  # made by bwrap itself, they would be for root only
        words += ["--perms", "0755", "--dir", str(parent)]
    for path in visible:
        words += ["--ro-bind-try", str(copies.get(path, path)), str(path)]
    return [*words, "--bind", str(folder), str(folder), "--chdir", str(folder)]


def _visible(readable: Sequence[Path]) -> list[Path]:
    """Return what the child may read, each once, without what lies in another."""
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, *site.getsitepackages()}
    paths = {Path(path) for path in (*SYSTEM, *prefixes)} | {_package(), *(p.resolve() for p in readable)}
    paths |= {Path(path).resolve() for path in prefixes}
    return sorted(path for path in paths if not paths.intersection(path.parents))


def _parents(paths: Sequence[Path]) -> list[Path]:
    """Return the folders around paths, outermost first."""
    return sorted({parent for path in paths for parent in path.parents if parent != Path("/")})
