"""Starting ranks, and starting them again: with programs of a line, which train nothing."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import threading
from pathlib import Path

import pytest

pytest.importorskip("torch")

from netweave.errors import RunError
from netweave.training.parallel.environment import GROUP_LOST
from netweave.training.parallel.launcher import Launcher, StandBy
from tests.training.parallel.command import is_there

pytestmark = pytest.mark.multi

BEGIN = "import os, sys, time; rank, attempt = map(os.environ.get, ['RANK', 'TORCHELASTIC_RESTART_COUNT']);"
WAIT = "time.sleep(60)"


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files are made; nothing of them may stay."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not list(tmp_path.iterdir())


def launch(code, *, size=3, restarts=0, **environment):
    told = []
    command = [sys.executable, "-S", "-c", f"{BEGIN} {code}"]
    launcher = Launcher(command, ["cpu"] * size, restarts, told.append, environment)
    return launcher, told


def test_ranks_are_started_again_until_they_end_well(temporary):
    code = "rank == '1' and attempt < '2' and os.kill(os.getpid(), 9); attempt < '2' and time.sleep(60)"
    launcher, told = launch(code, restarts=3)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("netweave.training.parallel.launcher.GRACE_S", 0.1)
        assert launcher.run() == 0
    assert told == [
        "rank 1 was killed by SIGKILL; starting all 3 ranks again from the last checkpoint (restart 1 of 3)",
        "rank 1 was killed by SIGKILL; starting all 3 ranks again from the last checkpoint (restart 2 of 3)",
    ]


def test_who_failed_is_named_and_not_who_noticed(temporary):
    launcher, told = launch(
        f"rank == '2' and sys.exit(3); time.sleep(0.3); sys.exit({GROUP_LOST})", restarts=1
    )
    with pytest.raises(RunError, match="rank 2 ended with status 3; after 1 restarts the run is given up"):
        launcher.run()
    assert len(told) == 1


def test_ranks_that_were_told_to_stop_are_not_started_again_although_a_server_ended_well(temporary):
    launcher, told = launch("sys.exit(0 if rank == '2' else 143)", restarts=1)
    assert launcher.run() == 143
    assert not told


def test_a_rank_that_says_what_is_wrong_is_not_started_again(temporary):
    content = '{"message": {"message": "no such file"}}'
    said = f"open(os.environ['TORCHELASTIC_ERROR_FILE'], 'w').write('{content}')"
    launcher, told = launch(f"{said}; sys.exit(2)", restarts=3)
    with pytest.raises(RunError, match=r"^no such file$"):
        launcher.run()
    assert not told


def test_a_rank_that_does_not_end_when_all_is_done_is_ended(temporary, monkeypatch):
    monkeypatch.setattr("netweave.training.parallel.launcher.LINGER_S", 0.3)
    launcher, told = launch(f"rank == '1' and {WAIT}", restarts=1)
    assert launcher.run() == 0
    assert told == ["rank 1 has not ended within 0 s of the others; ending it"]
    assert all(process.poll() is not None for process in launcher._processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_order_to_end_is_no_crash(temporary, number):
    """SIGTERM is passed on; with Ctrl-C the ranks of a terminal get it too, here one of them badly."""
    reaction = WAIT if number == signal.SIGTERM else "time.sleep(0.8); sys.exit(130 if rank == '0' else 1)"
    launcher, told = launch(reaction, restarts=3)
    before = signal.getsignal(number)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    assert launcher.run() == 128 + number
    timer.join()
    assert told == [f"ended by {number.name}; --resume goes on from the last checkpoint"]
    assert signal.getsignal(number) is before
    assert all(process.poll() is not None for process in launcher._processes)


def test_nothing_stays_behind(temporary, tmp_path_factory):
    """Neither the port, nor files, nor a rank that does not hear; two launchers have two stores."""
    folder = tmp_path_factory.mktemp("ports")
    deaf = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    port = "open(os.path.join(os.environ['PORTS'], rank), 'w').write(os.environ['MASTER_PORT'])"
    code = f"{deaf}; {port}; rank == '0' and sys.exit(7); {WAIT}"
    ports = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("netweave.training.parallel.launcher.GRACE_S", 0.3)
        for _ in range(2):
            launcher, _ = launch(code, size=2, PORTS=str(folder))
            with pytest.raises(RunError, match="rank 0 ended with status 7"):
                launcher.run()
            assert all(process.poll() is not None for process in launcher._processes)
            ports.add(int(Path(folder, "0").read_text()))
    for number in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", number)) != 0


LIBRARY = """import os, pathlib, time
time.sleep(0.2)
pathlib.Path("loaded").write_text(f"{os.getpid()} {os.environ.get('RANK')} {os.environ['OMP_NUM_THREADS']}")
"""

RANK = """import os, pathlib, signal, sys, time
rank, rejoins = os.environ["RANK"], os.environ.get("NETWEAVE_REJOINS")
if rank == "1" and rejoins:
    words = [str(os.getpid()), str("slow_library" in sys.modules), sys.argv[1], os.environ["LOCAL_RANK"]]
    words.append(str(signal.getsignal(signal.SIGINT) is signal.default_int_handler))
    pathlib.Path("again").write_text(" ".join(words))
elif rank == "1":
    from torch.distributed import TCPStore
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    store.set("units/1", "[1]")
    while not os.path.exists("loaded"):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
while not os.path.exists("again"):
    time.sleep(0.02)
"""


@pytest.fixture
def in_modules(tmp_path, monkeypatch):
    """Modules of a library and of a rank, in the working folder."""
    (tmp_path / "slow_library.py").write_text(LIBRARY)
    (tmp_path / "a_rank.py").write_text(RANK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("netweave.training.parallel.launcher.STAND_BY_S", 0.0)
    return {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}


def test_a_rank_that_is_started_again_alone_has_been_standing_by(in_modules, tmp_path):
    told = []
    command = [sys.executable, "-m", "a_rank", "word"]
    launcher = Launcher(command, ["cpu"] * 2, 3, told.append, in_modules, preload=["slow_library"])
    assert launcher.run() == 0
    (loaded, rank, threads), again = (
        (tmp_path / "loaded").read_text().split(),
        (tmp_path / "again").read_text(),
    )
    assert rank == "None"
    assert int(threads) >= 1
    assert again.split() == [loaded, "True", "word", "1", "True"]
    assert told == [
        "rank 1 was killed by SIGKILL; starting rank 1 again (restart 1 of 3); rank 1 is process " + loaded
    ]
    assert not is_there(int(loaded))


def test_a_process_that_stands_by_ends_with_its_launcher(in_modules):
    variables = {**os.environ, **in_modules, "OMP_NUM_THREADS": "1"}
    standby = StandBy.of([sys.executable, "-m", "a_rank"], ["slow_library"], variables)
    os.close(standby.orders)
    assert standby.process.wait(60) == 0
