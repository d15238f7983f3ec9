"""The guarded child process: what it may do, and what stops it."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from netweave.errors import CodeError
from netweave.files import sandbox
from netweave.files.sandbox import Limits, has_guard, run_guarded

if TYPE_CHECKING:
    from pathlib import Path

guarded = pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed")
slow = pytest.mark.slow


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
@slow
def test_the_guard_may_lie_in_any_folder_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marker, elsewhere = tmp_path / "used", tmp_path / "bwrap"
    elsewhere.write_text(f'#!/bin/sh\necho x > {marker}\nexec {shutil.which("bwrap")} "$@"\n')
    elsewhere.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert report(program(tmp_path, "print('ran')")) == "ran"
    assert marker.exists()


@guarded
@slow
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
@slow
def test_the_child_reads_a_file_that_only_its_owner_may_read(tmp_path: Path) -> None:
    given = tmp_path / "uploaded"
    given.write_text("given")
    given.chmod(0o600)  # as the workbench keeps uploads; a child of root is nobody
    assert report(program(tmp_path, "import sys; print(open(sys.argv[1]).read())"), given) == "given"
    assert given.stat().st_mode & 0o777 == 0o600


@guarded
@slow
def test_the_guard_is_the_one_on_the_path_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child has the system's PATH, on which bubblewrap from a package manager of one's own is not."""
    witness, folder = tmp_path / "witness", tmp_path / "bin"
    folder.mkdir()
    wrapper = folder / "bwrap"
    wrapper.write_text(f'#!/bin/sh\ntouch {witness}\nexec {shutil.which("bwrap")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert report(program(tmp_path, "print('ran')")) == "ran"
    assert witness.exists()


@guarded
@slow
def test_the_child_reads_a_folder_that_only_its_owner_may_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = tmp_path / "model"
    inner = folder / "inner"
    inner.mkdir(parents=True)
    (folder / "config.json").write_text("given")
    (inner / "weights").write_text("weights")
    (inner / "link").symlink_to(secret)
    for path in (secret, folder / "config.json", inner / "weights"):
        path.chmod(0o600)
    inner.chmod(0o700)
    folder.chmod(0o700)
    code = """
        import pathlib, sys
        folder = pathlib.Path(sys.argv[1])
        print((folder / "config.json").read_text(), (folder / "inner" / "weights").read_text())
        print((folder / "inner" / "link").exists())
    """
    assert report(program(tmp_path, code), folder).split() == ["given", "weights", "False"]
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (inner / "weights").stat().st_mode & 0o777 == 0o600


@guarded
@slow
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
@slow
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


@slow
@pytest.mark.parametrize("trust", [pytest.param(False, marks=guarded), True])
def test_time_and_memory_end(tmp_path: Path, trust: bool) -> None:
    with pytest.raises(CodeError, match=r"^model.py: its code ran longer than 0.5 seconds"):
        report(program(tmp_path, "while True: pass"), trust=trust, seconds=0.5)
    with pytest.raises(CodeError, match=r"^model.py: its code needs more than 268,435,456 bytes of memory"):
        report(program(tmp_path, "bytearray(1 << 30)"), trust=trust, memory_bytes=1 << 28)


def test_the_callers_own_files_are_not_counted_while_the_guard_begins() -> None:
    """Until bubblewrap has made its file systems, its child sees those of the caller."""
    command = [sys.executable, "-c", "import os, sys; os.fork(); print(flush=True); sys.stdin.read()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        sandbox.check_files_in_memory(process.pid, Limits(files=-1), "model.py")
        process.stdin.close()


@slow
def test_links_that_a_child_leaves_are_no_files(tmp_path: Path) -> None:
    code = "import os; os.symlink('/etc/passwd', 'net.onnx'); os.mkfifo('pipe')"
    with run_guarded(program(tmp_path, code), [], readable=[], place="model.py", trust=True) as outcome:
        assert outcome.file("net.onnx") is None
        assert outcome.file("pipe") is None
        assert outcome.file("none") is None


@slow
def test_an_endless_report_is_cut(tmp_path: Path) -> None:
    path = program(tmp_path, "print('x' * 1_000_000 + 'end')")
    assert report(path, trust=True).endswith("xend")
    with run_guarded(path, [], readable=[], place="m", trust=True) as outcome:
        assert len(outcome.report) <= sandbox.MAX_REPORT_BYTES


@guarded
@slow
@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("for n in range(300): open(f'f{n}', 'w')", "writes more than 200 files"),
        ("import os\nfor n in range(300):\n    os.mkdir('d'); os.chdir('d')", "writes more than 200 files"),
        ("import time\nfor n in range(300): open(f'/tmp/f{n}', 'w')\ntime.sleep(9)", "more than 200 files"),
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
    with sandbox.scratch_folder() as folder:
        code = "import os\nfor n in range(3000):\n    os.mkdir('d'); os.chdir('d')"
        subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    assert not folder.exists()
