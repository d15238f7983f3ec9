"""Reading and comparing leave the processor to the pages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from netweave.web.work.supervise import _fork_server

SCRIPT = """
import os
from pathlib import Path
from netweave.web.work import background
print(os.getsid(0) == os.getpid(), os.nice(0))
group = Path("/proc/self/autogroup")
print(group.read_text() if group.exists() else "")
"""


def test_what_works_in_the_background_has_a_session_of_its_own_that_is_nice():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    leads, group = done.stdout.splitlines()[:2]
    assert leads == f"True {min(19, os.nice(0) + 10)}"
    if not group:
        pytest.skip("this system has no autogroups")
    assert group.split()[-2:] == ["nice", "10"]
    assert group.split()[0] != Path("/proc/self/autogroup").read_text().split()[0]


def test_the_fork_server_imports_it_first():
    from multiprocessing import forkserver

    assert _fork_server.get_start_method() == "forkserver"
    assert forkserver._forkserver._preload_modules[0] == "netweave.web.work.background"
