"""The guarded child process: what it may do, and what stops it."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from netweave.errors import CodeError
from netweave.files import sandbox
from netweave.files.sandbox import Limits, has_guard, run_guarded

guarded = pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")
multi = pytest.mark.multi


def program(folder: Path, code: str) -> Path:
    path = folder / "program.py"
    path.write_text(textwrap.dedent(code))
    return path


def report(path: Path, *readable: Path, trust: bool = False, **limits: float) -> str:
    with run_guarded(
        path,
        [str(file) for file in readable],
        readable=readable,
        place="model.py",
        trust=trust,
        limits=Limits(**limits),  # type: ignore[arg-type]
    ) as outcome:
        assert outcome.status == 0, outcome.report
        return outcome.report.strip()


def test_without_guard_and_trust_nothing_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None)
    ran = tmp_path / "ran"
    with (
        pytest.raises(CodeError, match=r"^model.py: holds code, .*install bubblewrap .*--trust"),
        run_guarded(
            program(tmp_path, f"open({str(ran)!r}, 'w')"), [], readable=[], place="model.py", trust=False
        ),
    ):
        pass
    assert not ran.exists()


@guarded
@multi
def test_the_child_reads_what_it_is_given_and_nothing_else(tmp_path: Path) -> None:
    given, other = tmp_path / "given.txt", tmp_path / "other.txt"
    given.write_text("given")
    other.write_text("other")
    code = f"""
        import sys
        print(open(sys.argv[1]).read())
        for path in ({str(other)!r}, "/etc/passwd", "/etc/shadow"):
            try:
                print(open(path).read())
            except OSError:
                print("no")
    """
    assert report(program(tmp_path, code), given).split() == ["given", "no", "no", "no"]


@guarded
@multi
def test_the_child_reads_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    given = tmp_path / "uploaded"
    given.write_text("given")
    given.chmod(0o600)  # as the workbench keeps uploads; a child of root is nobody
    assert report(program(tmp_path, "import sys; print(open(sys.argv[1]).read())"), given) == "given"
    assert given.stat().st_mode & 0o777 == 0o600


@guarded
@multi
def test_the_child_has_no_network_and_writes_only_its_folder(tmp_path: Path) -> None:
    code = """
        import os, socket, sys
        open("mine", "w").write("x")
        try:
            open(sys.argv[1], "a")
        except OSError as error:
            print(type(error).__name__)
        names = sorted(name for _, name in socket.if_nameindex())
        print(names, os.getuid() != 0, sorted(os.environ))
    """
    path = program(tmp_path, code)
    with run_guarded(path, [str(path)], readable=[], place="model.py") as outcome:
        assert outcome.report.splitlines()[0] in {"OSError", "PermissionError"}
        assert outcome.report.splitlines()[1].startswith("['lo'] True")
        assert "SECRET" not in outcome.report
        mine = outcome.file("mine")
        assert mine is not None
        assert mine.read_text() == "x"
        folder = outcome.folder
    assert not folder.exists()


@guarded
@multi
def test_a_fork_bomb_ends_at_the_limit(tmp_path: Path) -> None:
    code = """
        import os, time
        count = 0
        while count < 500:
            try:
                if os.fork() == 0:
                    time.sleep(30)
                    os._exit(0)
            except OSError:
                break
            count += 1
        print(count)
    """
    assert int(report(program(tmp_path, code), processes=20)) < 20


@multi
@pytest.mark.parametrize("trust", [pytest.param(False, marks=guarded), True])
def test_time_and_memory_end(tmp_path: Path, trust: bool) -> None:
    with pytest.raises(CodeError, match=r"^model.py: its code ran longer than 0.5 seconds"):
        report(program(tmp_path, "while True: pass"), trust=trust, seconds=0.5)
    with pytest.raises(CodeError, match=r"^model.py: its code needs more than 268,435,456 bytes of memory"):
        report(program(tmp_path, "bytearray(1 << 30)"), trust=trust, memory_bytes=1 << 28)


@multi
def test_links_that_a_child_leaves_are_no_files(tmp_path: Path) -> None:
    code = "import os; os.symlink('/etc/passwd', 'net.onnx'); os.mkfifo('pipe')"
    with run_guarded(program(tmp_path, code), [], readable=[], place="model.py", trust=True) as outcome:
        assert outcome.file("net.onnx") is None
        assert outcome.file("pipe") is None
        assert outcome.file("none") is None


@multi
def test_an_endless_report_is_cut(tmp_path: Path) -> None:
    path = program(tmp_path, "print('x' * 1_000_000 + 'end')")
    assert report(path, trust=True).endswith("xend")
    with run_guarded(path, [], readable=[], place="m", trust=True) as outcome:
        assert len(outcome.report) <= sandbox.MAX_REPORT_BYTES


EVERYTHING = """
    import ctypes, errno, mmap, os, signal, socket, sys

    libc = ctypes.CDLL(None, use_errno=True)
    done = []

    def attempt(name, call):
        try:
            result = call()
        except (OSError, ValueError, OverflowError, AttributeError, MemoryError):
            return
        if isinstance(result, int) and result == -1:
            return
        done.append(name)

    attempt("user namespace", lambda: libc.unshare(0x10000000))
    attempt("clone3", lambda: libc.syscall(435, None, 0) if ctypes.get_errno() != errno.ENOSYS else -1)
    attempt("keyctl", lambda: libc.syscall(KEYCTL, 0, -3, 0))
    attempt("bpf", lambda: libc.syscall(BPF, 0, None, 0))
    attempt("io_uring", lambda: libc.syscall(425, 1, ctypes.create_string_buffer(256)))
    attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
    attempt("packets", lambda: socket.socket(17, socket.SOCK_RAW))
    attempt("crypto", lambda: socket.socket(38, socket.SOCK_SEQPACKET))
    attempt("network", lambda: socket.create_connection(("1.1.1.1", 53), 0.2))
    attempt("memfd", lambda: os.memfd_create("x"))
    attempt("shared memory", lambda: mmap.mmap(-1, 1 << 20))
    attempt("System V", lambda: libc.shmget(0, 1 << 20, 0o1600))
    attempt("trace", lambda: libc.ptrace(16, os.getppid(), 0, 0))
    attempt("mount", lambda: libc.mount(b"x", b"/tmp", b"tmpfs", 0, None))
    attempt("become root", lambda: os.setuid(0))
    attempt("signal the parent", lambda: [os.kill(pid, signal.SIGKILL) for pid in OUTSIDE])
    attempt("read a file", lambda: open(SECRET).read())
    attempt("write a file", lambda: open(SECRET, "w"))
    for place in ("/dev/shm/x", "/tmp/x"):
        def fill(place=place):
            with open(place, "wb") as file:
                for _ in range(512):
                    file.write(bytes(1 << 20))
                    file.flush()
        attempt("fill " + place, fill)
    attempt("memory", lambda: len(bytearray(4 << 30)))
    if os.fork() == 0:  # outlives the child, unless the guard ends it
        os.setsid()
        if os.fork() == 0:
            import time
            while True:
                time.sleep(0.05)
        os._exit(0)
    count = 0
    while count < 500:
        try:
            if os.fork() == 0:
                import time
                time.sleep(30)
                os._exit(0)
        except OSError:
            break
        count += 1
    print(done, count)
"""


@guarded
@multi
def test_a_child_that_tries_everything_is_contained_and_its_neighbour_works_on(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    numbers = {"x86_64": ("250", "321"), "aarch64": ("219", "280")}
    keyctl, bpf = numbers.get(platform.machine(), ("250", "321"))
    code = textwrap.dedent(EVERYTHING)
    for word, value in {
        "KEYCTL": keyctl,
        "BPF": bpf,
        "OUTSIDE": repr([os.getpid(), os.getppid()]),
        "SECRET": repr(str(secret)),
    }.items():
        code = code.replace(word, value)
    attacker, honest = tmp_path / "attacker.py", tmp_path / "honest.py"
    attacker.write_text(code)
    honest.write_text(
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(7)']).returncode)"
    )
    outcomes: dict[str, str] = {}

    def run(path: Path) -> None:
        limits = Limits(seconds=60, memory_bytes=1 << 30, processes=40)
        with run_guarded(path, [], readable=[], place=path.name, limits=limits) as outcome:
            outcomes[path.name] = outcome.report

    threads = [threading.Thread(target=run, args=(path,)) for path in (attacker, honest)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes["honest.py"].split() == ["7", "0"]
    done, _, count = outcomes["attacker.py"].strip().rpartition(" ")
    assert done == "[]"
    assert int(count) < 40
    assert secret.read_text() == "secret"
    until = time.monotonic() + 10  # the kernel takes a moment to end what is left of a namespace
    while (left := _processes_of(attacker)) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []


def _processes_of(path: Path) -> list[Path]:
    files = Path("/proc").glob("[0-9]*/cmdline")
    return [file for file in files if str(path).encode() in _content(file)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@guarded
@multi
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("for n in range(300): open(f'f{n}', 'w')", "writes more than 200 files"),
        ("import os\nfor n in range(300):\n    os.mkdir('d'); os.chdir('d')", "writes more than 200 files"),
        ("for n in range(9): open(f'f{n}', 'wb').write(bytes(1 << 20))", "writes more than 200 files, 4,194"),
    ],
)
def test_what_a_child_writes_is_bounded(tmp_path: Path, code: str, message: str) -> None:
    limits = Limits(files=200, file_bytes=4 << 20)
    path = program(tmp_path, code)
    with (
        pytest.raises(CodeError, match=message),
        run_guarded(path, [], readable=[], place="model.py", limits=limits),
    ):
        pass


def test_a_child_inherits_the_memory_limit_of_the_process_that_starts_it(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (6 << 30, hard))
    try:
        assert Limits().inherited().memory_bytes == 6 << 30
        assert Limits(memory_bytes=1 << 30).inherited().memory_bytes == 1 << 30
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def test_folders_in_one_another_are_removed_however_deep(tmp_path: Path) -> None:
    with sandbox._scratch_folder() as folder:
        code = "import os\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    assert not folder.exists()
