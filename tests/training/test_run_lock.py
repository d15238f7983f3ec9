"""One run at a time writes the checkpoints of a prefix."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from netweave.errors import UsageError
from netweave.training.checkpoint_writer import exclusive

HOLDER = """import sys, pathlib
from netweave.training.checkpoint_writer import exclusive
with exclusive(pathlib.Path(sys.argv[1]), "checkpoints 'net'"):
    print("held", flush=True)
    sys.stdin.read()
"""

CONTENDER = """import sys, pathlib, time
from netweave.errors import UsageError
from netweave.training.checkpoint_writer import exclusive
lock, inside = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
until, count = time.monotonic() + 2, 0
while time.monotonic() < until:
    try:
        with exclusive(lock, "it"):
            inside.mkdir()
            inside.rmdir()
            count += 1
    except UsageError:
        pass
print(count)
"""


def test_a_second_run_is_refused_until_the_first_has_ended(tmp_path):
    path = tmp_path / "net.lock"
    with exclusive(path, "checkpoints 'net'"):
        message = rf"another run \(process {os.getpid()} on .*\) is writing checkpoints 'net'; wait until"
        with pytest.raises(UsageError, match=message), exclusive(path, "checkpoints 'net'"):
            pass
        assert path.exists()
    assert not path.exists()
    with exclusive(path, "checkpoints 'net'"):
        pass


@pytest.mark.slow
def test_a_run_that_was_killed_holds_nothing(tmp_path):
    path = tmp_path / "net.lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {process.pid} on "), exclusive(path, "it"):
            pass
        process.kill()
    assert path.exists()
    with exclusive(path, "it"):
        assert path.read_text().startswith(f"process {os.getpid()} on ")


@pytest.mark.slow
def test_of_many_runs_at_once_one_holds_it(tmp_path):
    """Each makes the same folder while it holds the lock, which a second holder could not."""
    command = [sys.executable, "-c", CONTENDER, str(tmp_path / "net.lock"), str(tmp_path / "inside")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert all(int(count) > 0 for count in counts)
