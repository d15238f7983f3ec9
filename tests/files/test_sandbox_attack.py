"""A hostile model tries everything at once: as root and as an ordinary user, beside an honest one."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import netweave
from netweave.files.sandbox import has_guard

HERE = Path(__file__).parent
NOBODY = 65534

AS_USER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_guard(), reason="bubblewrap is not installed"),
]


def ways():
    """Return the users that a test can be, with what starts a program as each."""
    if os.geteuid() != 0:
        return [pytest.param((), id="as a user")]
    return [pytest.param((), id="as root"), pytest.param(AS_USER, id="as a user")]


@pytest.fixture
def outside():
    """A folder that any user may read, with a secret, and servers on this machine."""
    folder = Path(tempfile.mkdtemp(prefix="attacked-"))
    folder.chmod(0o755)
    secret = folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(folder / "socket"))
        (folder / "socket").chmod(0o777)
        unix.listen()
        with socket.socket(socket.AF_UNIX) as abstract:
            abstract.bind("\0" + str(folder / "socket"))
            abstract.listen()
            yield {
                "secret": str(secret),
                "socket": str(folder / "socket"),
                "port": server.getsockname()[1],
                "outside": [os.getpid(), os.getppid()],
            }
    shutil.rmtree(folder)


def interpreter(start) -> str:
    """Return an interpreter that a user can run: an environment may lie in somebody's home."""
    for name in (sys.executable, "/usr/bin/python3"):
        command = [*start, "/usr/bin/env", name, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return name
    pytest.skip("no interpreter that another user can run")


def programs_of(path: Path) -> list[str]:
    """Return the processes that run a program."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(path).encode() in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(process.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("start", ways())
def test_a_hostile_model_does_nothing_outside_and_its_neighbour_works_on(outside, start):
    scratch = Path(tempfile.mkdtemp(prefix="scratch-"))
    scratch.chmod(0o777)
    environment = {
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(Path(netweave.__file__).parents[1]),
        "TMPDIR": str(scratch),
    }
    pair = HERE / "sandbox_pair.py"
    done = subprocess.run(
        [*start, "/usr/bin/env", interpreter(start), str(pair), json.dumps(outside)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    told = json.loads(done.stdout)
    assert isinstance(told["attack"], dict), told["attack"]
    assert told["attack"]["done"] == []
    assert 20 < told["attack"]["processes"] <= 61  # its share and the first process of its namespace
    assert told["neighbour"]["failures"] == []
    assert told["neighbour"]["rounds"] >= 10
    assert Path(outside["secret"]).read_text() == "secret"
    until = time.monotonic() + 10  # the kernel takes a moment to end what is left of a namespace
    while (left := programs_of(HERE / "sandbox_attack.py")) and time.monotonic() < until:
        time.sleep(0.1)
    assert left == []
    assert list(scratch.iterdir()) == []
    scratch.rmdir()
