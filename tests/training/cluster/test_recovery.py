"""Workers and servers that are killed: named, started again, and nothing applied twice or lost."""

from __future__ import annotations

import pytest

from tests.training.cluster.processes import Case, run
from tests.training.cluster.test_exactness import largest_difference, sandblaster
from tests.training.parallel.ranks import Case as Alone
from tests.training.parallel.ranks import alone

pytestmark = [pytest.mark.multi, pytest.mark.slow]

EXHAUSTIVE = pytest.mark.exhaustive

NAMES = {0: "worker 0 of worker group 0", 1: "worker 1 of worker group 0", 2: "server 0 of server group 0"}


@pytest.mark.parametrize("killed", [pytest.param(0, marks=EXHAUSTIVE), pytest.param(1, marks=EXHAUSTIVE), 2])
def test_a_killed_process_is_named_and_the_run_ends_as_if_nothing_had_been(killed, tmp_path, capfd):
    case = Case("killed", sandblaster(2, 1), snapshot=5, kill=[killed, 12])
    found = run(tmp_path, [case], 3, restarts=1)["killed"]
    whole = alone(tmp_path / "alone", Alone("alone"))
    whole["losses"] = whole["losses"][-len(found["losses"]) :]
    assert len(found["losses"]) == 10  # from the checkpoint of update 10
    assert largest_difference(found, whole) < 1e-12
    output, errors = capfd.readouterr()
    assert f"rank {killed} was killed by SIGKILL" in output
    if killed != 1:  # whose group's world names it
        assert f"process {killed} ({NAMES[killed]}) has ended" in errors
