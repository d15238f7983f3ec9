"""A loop of PyTorch's own: the same bits on any ranks, after kills, preemptions and a change of the ranks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import pytest

pytest.importorskip("torch")

from netweave.errors import RunError
from netweave.training.parallel.launcher import Launcher
from tests.exact import loops
from tests.training.parallel import command

pytestmark = [pytest.mark.multi, pytest.mark.slow]

STEPS = 30


@pytest.fixture(scope="module")
def one_rank(tmp_path_factory):
    """The hash of each net that one rank has trained with one thread."""
    return loops.run(tmp_path_factory.mktemp("one"), STEPS, ranks=1)


@pytest.mark.parametrize(("ranks", "threads"), [(1, 2), (2, 2), (4, 1), (8, 1)])
def test_all_numbers_of_ranks_and_threads_end_with_one_hash(tmp_path, one_rank, ranks, threads):
    assert loops.run(tmp_path, STEPS, ranks=ranks, threads=threads) == one_rank


def test_modules_of_many_kinds_end_with_one_hash(tmp_path):
    ends = [
        loops.run(tmp_path / f"{ranks}", 8, ranks=ranks, threads=3 - ranks, names=loops.OTHERS)
        for ranks in (1, 2)
    ]
    assert ends[0] == ends[1]
    assert len(set(ends[0].values())) == len(loops.OTHERS)


def test_a_run_goes_on_with_other_ranks(tmp_path, one_rank):
    loops.run(tmp_path, 8, ranks=4)
    loops.run(tmp_path, 17, ranks=2)
    assert loops.run(tmp_path, STEPS, ranks=1) == one_rank


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "Exchange(model, shards=3)",
            r"3 shards cannot be shared out evenly among 2 ranks; take 1 or 3 ranks",
        ),
        ("Exchange(model, shards=8)", r"has parameters with the fingerprint .*, the others .*manual_seed"),
    ],
)
def test_ranks_that_do_not_fit_say_so_before_the_first_update(capfd, call, message):
    program = "import os, torch; from netweave import exact; torch.manual_seed(int(os.environ['RANK']))"
    program += f"; model = torch.nn.Linear(2, 2); exact.{call}"
    with pytest.raises(RunError, match="ended with status 1"):
        Launcher([sys.executable, "-c", program], ["cpu"] * 2, 0, print).run()
    assert re.search(message, capfd.readouterr().err)


def started(folder, ranks):
    """Start a run of several ranks with torchrun, slow enough to be met on its way."""
    agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    program = loops.command(folder, ["images"], STEPS, pause_s=0.05)[1:]
    pipe = subprocess.PIPE
    return subprocess.Popen([*agent, *program], stdout=pipe, stderr=subprocess.STDOUT, text=True)


def until(process, update):
    """Read what a run says until it has made an update."""
    said = []
    for line in process.stdout:
        said.append(line)
        if line.startswith(f"update {update},"):
            return
    pytest.fail("".join(said))


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, one_rank):
    process = started(tmp_path, 2)
    with command.ended(process):
        until(process, 12)
        os.kill(command.ranks_of(process)[1], signal.SIGKILL)
        status, said = command.finish(process)
    assert status != 0, said
    assert not (tmp_path / "images.npz").exists()
    assert loops.run(tmp_path, STEPS, ranks=1, names=["images"])["images"] == one_rank["images"]


@pytest.mark.parametrize(("ranks", "number"), [(1, signal.SIGINT), (2, signal.SIGTERM)])
def test_a_run_whose_machine_is_taken_away_loses_no_update(tmp_path, one_rank, ranks, number):
    """The signal goes to one rank; all end with its status, which torchrun shows."""
    process = started(tmp_path, ranks)
    with command.ended(process):
        until(process, 11)
        os.kill(command.ranks_of(process)[-1], number)
        _, said = command.finish(process)
    assert re.search(rf"exitcode *: {128 + number} ", said), said
    made = [int(update) for update in re.findall(r"^update (\d+),", said, re.MULTILINE)]
    assert (tmp_path / f"images_iter_{max(made, default=11)}.checkpoint").exists(), said
    assert loops.run(tmp_path, STEPS, ranks=2, names=["images"])["images"] == one_rank["images"]
