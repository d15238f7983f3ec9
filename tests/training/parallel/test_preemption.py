"""``netweave train`` when its machine is taken away: no update is lost, and the exit status says so."""

from __future__ import annotations

import os
import re
import signal

import pytest

import netweave
from netweave.errors import UsageError
from tests.training.parallel import command

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS = 60


def preempted(process, *, number=signal.SIGTERM, rank=None):
    """Send a signal after some updates, to the process or one of its ranks; return the number of updates."""
    with command.ended(process):
        for line in process.stdout:
            if line.startswith("Iteration 20, loss"):
                break
        pid = process.pid if rank is None else command.ranks_of(process)[rank]
        os.kill(pid, number)
        status, output = command.finish(process, 60)
    assert status == 143, output
    stopped = re.search(r"Iteration (\d+), stopped; --resume goes on from here", output)
    assert stopped, output
    return int(stopped[1])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The parameters at the end of a run that nobody disturbs, by number of ranks."""
    ends = {}
    for ranks in (1, 2):
        folder = tmp_path_factory.mktemp(f"whole{ranks}")
        command.write(folder, steps=STEPS, snapshot=0)
        status, output = command.finish(command.start(folder, *arguments(ranks)))
        assert status == 0, output
        ends[ranks] = command.arrays(folder, STEPS)
    return ends


def arguments(ranks):
    return ("--seed", "4", *(("--devices", f"cpu:{ranks}", "--batch", "split") if ranks > 1 else ()))


@pytest.mark.parametrize(
    ("ranks", "of_rank", "number", "more"),
    [
        (1, None, signal.SIGTERM, ()),
        (1, None, signal.SIGUSR1, ("--stop-signal", "USR1")),
        (2, None, signal.SIGTERM, ("--restarts", "3")),
        (2, 1, signal.SIGTERM, ()),
    ],
    ids=["alone", "another signal", "several", "one of several"],
)
def test_a_run_whose_machine_is_taken_away_loses_no_update(tmp_path, whole, ranks, of_rank, number, more):
    command.write(tmp_path, steps=STEPS, snapshot=0)
    process = command.start(tmp_path, *arguments(ranks), *more, "--requeued")
    at = preempted(process, number=number, rank=of_rank)
    assert 20 <= at < STEPS
    status, output = command.finish(command.start(tmp_path, *arguments(ranks), "--requeued"))
    assert status == 0, output
    assert f"resuming from out/net_iter_{at}.checkpoint" in output
    assert command.is_equal(command.arrays(tmp_path, STEPS), whole[ranks])


def test_a_checkpoint_is_written_though_the_end_of_the_run_makes_none(tmp_path):
    command.write(tmp_path, steps=1_000_000, snapshot=100_000)
    with (tmp_path / "solver.prototxt").open("a") as solver:
        solver.write("snapshot_after_train: false\n")
    at = preempted(command.start(tmp_path, *arguments(1)))
    assert list((tmp_path / "out").glob("*.checkpoint")) == [tmp_path / f"out/net_iter_{at}.checkpoint"]


@pytest.mark.parametrize("ranks", [1, 2])
def test_checkpoints_are_written_by_time_besides_the_iterations(tmp_path, ranks):
    command.write(tmp_path, steps=STEPS, snapshot=100_000)
    process = command.start(tmp_path, *arguments(ranks), "--checkpoint-every", "0.000001s", "--keep", "100")
    status, output = command.finish(process)
    assert status == 0, output
    written = sorted(int(path.stem.split("_")[-1]) for path in (tmp_path / "out").glob("*.checkpoint"))
    assert written == list(range(1, STEPS + 1))


def test_an_unknown_signal_is_refused():
    with pytest.raises(UsageError, match=r"stop_signal is 'KILL', expected one of TERM, USR1, USR2, HUP"):
        netweave.TrainOptions(stop_signal="KILL")
