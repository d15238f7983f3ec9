"""Sandbox: the child process that reads files nobody vouches for."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import site
import stat
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from netweave.errors import CodeError
from netweave.files.seccomp import seccomp_filter

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
            seen = f"/proc/{process}/root{folder}"
            if Path(folder).exists() and Path(seen).samefile(folder):
                continue  # it has just begun, and still sees what this process does
            status = os.statvfs(seen)
            if status.f_files - status.f_ffree > limits.files:
                raise _too_much(limits, place)


def _too_much(limits: Limits, place: str) -> CodeError:
    return CodeError(
        f"its code writes more than {limits.files:,} files, {limits.file_bytes:,} bytes or "
        f"{MAX_DEPTH} folders in each other",
        place=place,
    )


# Limits of a process (``prlimit``) hold for each one that it starts anew, and do not count what lies in
# file systems in memory. A control group counts everything once. It needs a place where this process may
# make groups (a container that may write to its cgroups, the session of a desktop, a service of systemd
# with ``Delegate=memory pids`` and ``DelegateSubgroup=main``). Where there is none, the other limits hold
# alone (docs/decisions/0170).

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


# The guard is bubblewrap (``bwrap``): the child sees no network, no other processes, read-only the
# interpreter, its packages and the given files, and one empty folder that it may write to. Time, memory,
# processes and what it writes are limited, and a filter keeps it from system calls that no model needs
# (``seccomp``); a child of root becomes an unprivileged user of its own, since the limit on processes does
# not bind root and counts all processes of a user. Without the guard nothing runs, unless the caller trusts
# the files.

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
    with prepared(program, arguments, readable=readable, place=place, trust=trust, limits=limits) as command:
        yield _run(command, limits=limits, place=place)


@dataclass(frozen=True, slots=True)
class GuardedCommand:
    """A command that runs a program in the guard, or without it for trusted code.

    Attributes:
        words: The command.
        folder: The folder that it may write to, and starts in.
        report: The file that gets what it prints.
        environment: Its environment.
        kept: Descriptors that it needs.
        group: Its control group, if there is one.
        is_guarded: Whether it runs in the guard.
    """

    words: tuple[str, ...]
    folder: Path
    report: Path
    environment: Mapping[str, str]
    kept: tuple[int, ...] = ()
    group: Cgroup | None = None
    is_guarded: bool = True

    def start(self, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        """Start it in a session of its own.

        Args:
            stdin: Descriptor that it reads from.
        """
        with self.report.open("wb") as output:
            return subprocess.Popen(
                self.words if self.group is None else self.group.enter(self.words),
                cwd=self.folder,
                env=self.environment,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=self.kept,
            )

    def wait(self, child: subprocess.Popen[bytes], *, limits: Limits, place: str) -> int:
        """Wait for a process of this command while it stays within its limits, and return its status.

        Raises:
            CodeError: It does not.
        """
        until = time.monotonic() + limits.seconds
        while True:
            try:
                return child.wait(min(WATCH_S, max(0.0, until - time.monotonic())))
            except subprocess.TimeoutExpired:
                if time.monotonic() >= until:
                    raise too_long(limits, place) from None
            check_written(self.folder, limits, place)
            if self.is_guarded:
                check_files_in_memory(child.pid, limits, place)
            if self.report.stat().st_size > limits.file_bytes:
                raise CodeError(f"its code prints more than {limits.file_bytes:,} bytes", place=place)

    def outcome(self, status: int, *, limits: Limits, place: str) -> Outcome:
        """Return the way in which a process of this command ended.

        Raises:
            CodeError: It wrote too much, or memory ran out.
        """
        check_written(self.folder, limits, place)
        text = report_end(self.report)
        is_out_of_memory = any(
            words in text for words in ("MemoryError", "can't allocate memory", "std::bad_alloc")
        )
        if status and (is_out_of_memory or (self.group is not None and self.group.ran_out_of_memory())):
            raise CodeError(f"its code needs more than {limits.memory_bytes:,} bytes of memory", place=place)
        return Outcome(status, text, self.folder)


@contextmanager
def prepared(
    program: Path,
    arguments: Sequence[str],
    *,
    readable: Sequence[Path],
    place: str,
    trust: bool,
    limits: Limits,
) -> Iterator[GuardedCommand]:
    """Make what a guarded process needs, until the context ends; arguments and errors as ``run_guarded``."""
    if not trust and not has_guard():
        raise CodeError(
            "holds code, which runs only in a guarded process, and the guard is not here: install "
            "bubblewrap (bwrap), or say that you trust the file (--trust, trust=True)",
            place=place,
        )
    with scratch_folder() as outer:
        folder, report = outer / "child", outer / "report"
        folder.mkdir()
        folder.chmod(0o711)  # the guard goes in before it stops being root; around it all is closed
        # -P: the folder of the program holds modules of ours, which no model may find by their short names
        if trust:
            words = [*_limited(limits, guarded=False), sys.executable, "-P", str(program), *arguments]
            yield GuardedCommand(tuple(words), folder, report, _environment_of_user(), is_guarded=False)
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
            words = [*guard, *seccomp, "--", *inside]
            kept = () if filtered is None else (filtered,)
            yield GuardedCommand(tuple(words), folder, report, _environment(folder), kept, group)


@contextmanager
def scratch_folder() -> Iterator[Path]:
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


def _run(command: GuardedCommand, *, limits: Limits, place: str) -> Outcome:
    child = command.start()
    try:
        status = command.wait(child, limits=limits, place=place)
    finally:
        end(child)
    return command.outcome(status, limits=limits, place=place)


def too_long(limits: Limits, place: str) -> CodeError:
    """Return the error for code that takes more than its time."""
    return CodeError(f"its code ran longer than {limits.seconds:g} seconds and was stopped", place=place)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child and all that it started in its session."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def report_end(report: Path) -> str:
    """Return the end of what a child printed."""
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


def readable_copies(paths: Sequence[Path], folder: Path) -> dict[Path, Path]:
    """Copy the files, and the folders with all that is in them, that other users may not read.

    Args:
        paths: Files and folders.
        folder: Where copies are made; it need not exist.

    Returns:
        The copies by what they are of.
    """
    copies: dict[Path, Path] = {}
    for path in {path.resolve() for path in paths}:
        if all(map(_is_readable, _all_in(path))):
            continue
        folder.mkdir(exist_ok=True)
        copies[path] = folder / str(len(copies))
        if path.is_dir():
            _copy_folder(path, copies[path], root=path)
        else:
            _copy_file(path, copies[path])
    return copies


def _all_in(path: Path) -> Iterator[Path]:
    """Yield a path and what lies in it; links are not followed."""
    yield path
    for folder, folders, files in os.walk(path):
        yield from (path.joinpath(folder, name) for name in (*folders, *files))


def _is_readable(path: Path) -> bool:
    """Return whether another user may open a file or folder; of others, such as links, nothing is copied."""
    mode = path.lstat().st_mode
    if stat.S_ISDIR(mode):
        return mode & (stat.S_IROTH | stat.S_IXOTH) == stat.S_IROTH | stat.S_IXOTH
    return not stat.S_ISREG(mode) or bool(mode & stat.S_IROTH)


def _copy_folder(source: Path, target: Path, *, root: Path) -> None:
    """Copy a folder that lies in another, or is it.

    A link that leads out of it is left out: it would give code in it what its user may not read.
    """
    target.mkdir()
    for path in source.iterdir():
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            _copy_folder(path, target / path.name, root=root)
        elif stat.S_ISREG(mode):
            _copy_file(path, target / path.name)
        elif stat.S_ISLNK(mode) and path.resolve().is_relative_to(root):
            target.joinpath(path.name).symlink_to(path.readlink())
    target.chmod(0o755)


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target, follow_symlinks=False)
    target.chmod(0o444)
