"""Workers and servers that are killed: named, started again alone, and nothing applied twice or lost."""

from __future__ import annotations

import pytest

from netweave.job import Cluster
from netweave.training.cluster.topology import place, trained_sizes
from tests.training.cluster.processes import Case, run
from tests.training.cluster.test_exactness import largest_difference, sandblaster
from tests.training.parallel import nets
from tests.training.parallel.ranks import Case as Alone
from tests.training.parallel.ranks import alone

pytestmark = [pytest.mark.multi, pytest.mark.slow]

EXHAUSTIVE = pytest.mark.exhaustive

STEPS = 20


@pytest.mark.parametrize(
    ("killed", "started", "left"),
    [
        pytest.param(0, "all 3 ranks", 10, marks=EXHAUSTIVE),  # from the checkpoint of update 10
        pytest.param(1, "all 3 ranks", 10, marks=EXHAUSTIVE),
        (2, "rank 2", STEPS),
    ],
)
def test_a_synchronous_run_ends_as_if_nothing_had_been_killed(killed, started, left, tmp_path, capfd):
    case = Case("killed", sandblaster(2, 1), snapshot=5, kill=[killed, 12])
    found = run(tmp_path, [case], 3, restarts=1)["killed"]
    whole = alone(tmp_path / "alone", Alone("alone"))
    assert len(found["losses"]) == left
    whole["losses"] = whole["losses"][-len(found["losses"]) :]
    assert largest_difference(found, whole) < 1e-12
    output, errors = capfd.readouterr()
    assert f"rank {killed} was killed by SIGKILL; starting {started} again" in output
    if killed == 2:
        assert "process 2 (server 0 of server group 0) has ended; waiting for it to be" in errors
    elif killed == 0:
        assert "process 0 (worker 0 of worker group 0) has ended" in errors


def test_a_launcher_does_not_end_a_slow_group_when_others_are_done(tmp_path, monkeypatch):
    monkeypatch.setattr("netweave.training.parallel.launcher.LINGER_S", 1.0)
    case = Case("slow", {"worker_groups": 3}, steps=10, slow=0.4)
    (line,) = run(tmp_path, [case], 3)["slow"]["lines"]
    assert int(line.split()[2]) == 3 * 10 * _num_slices(tmp_path / "slow", case)


@pytest.mark.parametrize("killed", [1, pytest.param(2, marks=EXHAUSTIVE)])
def test_the_servers_of_asynchronous_groups_apply_every_update_once(killed, tmp_path, capfd):
    case = Case("killed", sandblaster(1, 1, worker_groups=2, staleness=2), kill=[killed, 12])
    found = run(tmp_path, [case], 3, restarts=1)["killed"]
    (line,) = found["lines"]
    assert int(line.split()[2]) == 2 * STEPS * _num_slices(tmp_path / "killed", case)
    assert len(found["losses"]) == STEPS  # the first group went on
    assert found["losses"][-5:].mean() < 0.7 * found["losses"][:3].mean()
    assert "starting all" not in capfd.readouterr().out


def _num_slices(folder, case):
    graph = nets.job(folder / "solver.prototxt").phases["train"].graph
    return len(place(Cluster(**case.cluster), trained_sizes(graph)).layout.slices)
