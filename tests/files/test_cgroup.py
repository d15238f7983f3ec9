"""Control groups: where one can be made, what is written into it, and that it goes.

Plain folders play the kernel's part, since few machines that run tests let them make groups; where one does,
the last test makes a real one.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from netweave.files import sandbox
from netweave.files.sandbox import Limits, limited_group, parent_folder, run_guarded

if TYPE_CHECKING:
    from pathlib import Path

BOTH = "cpu memory pids"


@pytest.fixture
def mount(tmp_path, monkeypatch):
    """A tree of groups; what is given is what each group hands on to those in it."""

    def make(own: str, **enabled: str) -> Path:
        (tmp_path / "cgroup.controllers").write_text(BOTH)
        for name, controllers in {"": "", **enabled}.items():
            folder = tmp_path / name.replace("_", "/")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cgroup.subtree_control").write_text(controllers)
            (folder / "cgroup.procs").write_text("")
        (tmp_path / "own").write_text(f"1:name=systemd:/x\n0::{own}\n")
        monkeypatch.setattr(sandbox, "MOUNT", tmp_path)
        monkeypatch.setattr(sandbox, "OWN", tmp_path / "own")
        return tmp_path

    return make


def test_a_container_with_groups_of_its_own_makes_them_in_the_root(mount):
    folder = mount("/")
    (folder / "cgroup.subtree_control").write_text(BOTH)
    assert parent_folder() == folder


def test_a_service_makes_groups_beside_the_one_of_its_processes(mount):
    folder = mount("/service/main", service=BOTH, service_main="")
    assert parent_folder() == folder / "service"


@pytest.mark.parametrize("enabled", ["", "memory", "cpu pids"])
def test_without_both_controllers_there_is_no_place(mount, enabled):
    mount("/service/main", service=enabled, service_main="")
    assert parent_folder() is None


def test_without_cgroups_of_the_second_version_there_is_no_place(mount):
    folder = mount("/")
    (folder / "cgroup.subtree_control").write_text(BOTH)
    (folder / "own").write_text("4:memory:/x\n")  # the first version only
    assert parent_folder() is None
    (folder / "own").write_text("0::/\n")
    (folder / "cgroup.controllers").unlink()
    assert parent_folder() is None


def test_a_path_does_not_leave_the_mount(mount):
    mount("/..")
    assert parent_folder() is None


def test_a_group_has_limits_and_a_process_joins_it_before_it_runs(mount, tmp_path):
    folder = mount("/service/main", service=BOTH, service_main="")
    with limited_group(memory_bytes=1 << 28, processes=20) as group:
        assert group is not None
        assert group.folder.parent == folder / "service"
        limits = {path.name: path.read_text() for path in group.folder.iterdir()}
        assert limits == {
            "memory.max": str(1 << 28),
            "memory.oom.group": "1",
            "memory.swap.max": "0",
            "pids.max": "20",
        }
        command = group.enter(["/bin/sh", "-c", 'cat "$1"', "-", str(group.folder / "cgroup.procs")])
        joined = subprocess.run(command, capture_output=True, text=True, check=True)
        assert joined.stdout == "0\n"  # "0" is how a process names itself there
        assert not group.ran_out_of_memory()
        (group.folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
        assert group.ran_out_of_memory()
        for path in group.folder.iterdir():
            path.unlink()  # which the kernel does with the folder


def test_a_command_that_cannot_join_does_not_run(mount, tmp_path):
    mount("/service/main", service=BOTH, service_main="")
    with limited_group(memory_bytes=1 << 28, processes=20) as group:
        assert group is not None
        for path in group.folder.iterdir():
            path.unlink()
        group.folder.rmdir()
        ran = tmp_path / "ran"
        done = subprocess.run(group.enter(["/usr/bin/touch", str(ran)]), capture_output=True, check=False)
    assert done.returncode
    assert not ran.exists()


@pytest.mark.slow
@pytest.mark.skipif(not sandbox.has_guard(), reason="bubblewrap is not installed")
@pytest.mark.skipif(parent_folder() is None, reason="no control group can be made here")
def test_processes_have_one_limit_together(tmp_path):
    """Each takes less than the limit; all together take more, and are ended."""
    program = tmp_path / "program.py"
    program.write_text(
        "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n"
        "        held = bytearray(100 << 20); time.sleep(5); os._exit(0)\nfor _ in range(8): os.wait()\n"
    )
    with (
        pytest.raises(sandbox.CodeError, match="needs more than 268,435,456 bytes of memory"),
        run_guarded(program, [], readable=[], place="m.py", limits=Limits(memory_bytes=1 << 28)),
    ):
        pass
    assert not list(parent_folder().glob("netweave-*"))
