"""What machines really did: busy time by a clock of the test's own, multiply-adds counted by hand."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from netweave.runtime.backends.torch.memory import peak_multiply_adds_per_s
from netweave.training.goodput import RankWork
from netweave.training.parallel.occupancy import COMPUTE, LINK, Occupancy
from netweave.training.rank_exchange import multiply_adds_per_sample
from tests.training.parallel import nets


def test_shares_and_what_is_hidden_are_those_of_the_clock():
    """Computing from 2 to 8, two collectives from 4 to 7 and 6 to 10: the link 6 of 12, 4 of them hidden."""
    times = iter([0, 2, 4, 6, 7, 8, 10, 12])
    occupancy = Occupancy(lambda: float(next(times)))
    occupancy.enter(COMPUTE)
    occupancy.enter(LINK)
    occupancy.enter(LINK)
    occupancy.leave(LINK)
    occupancy.leave(COMPUTE)
    occupancy.leave(LINK)
    assert occupancy.shares() == pytest.approx((6 / 12, 6 / 12, 4 / 6))


def test_waiting_in_the_middle_of_computing_is_time_on_the_link():
    times = iter([0, 0, 3, 3, 5, 5, 8, 10, 10, 10])
    occupancy = Occupancy(lambda: float(next(times)))
    with occupancy.busy(COMPUTE), occupancy.waiting():
        pass
    assert occupancy.shares() == pytest.approx((6 / 10, 2 / 10, 0))


def test_a_measurement_can_begin_anew_while_something_runs():
    times = iter([0, 1, 5, 5, 7, 9])
    occupancy = Occupancy(lambda: float(next(times)))
    occupancy.enter(COMPUTE)
    occupancy.restart()
    times = iter([7, 9])
    occupancy._now = lambda: float(next(times))
    occupancy.leave(COMPUTE)
    assert occupancy.shares()[0] == pytest.approx(2 / 4)


def test_multiply_adds_of_a_step_are_counted_by_hand(tmp_path):
    """conv1 reads the input, so that it has no gradient of it: 2 times forward; the others 3 times."""
    job = nets.job(nets.write(tmp_path, "pooled", steps=1))
    conv1, ip1, out = 6 * 2 * 9 * 36, 6 * 9 * 40, 40 * 5
    assert multiply_adds_per_sample(job.phases["train"].graph) == 2 * conv1 + 3 * (ip1 + out)


def test_a_peak_is_measured_once_and_is_more_than_nothing():
    first = peak_multiply_adds_per_s("cpu", 1)
    assert first == peak_multiply_adds_per_s("cpu", 1)
    assert 1e8 < first < 1e15


def test_a_line_says_what_a_rank_did():
    work = RankWork(1, "a", "cpu", 0.75, 0.5, 0.25, 0.1, 2e9, 8e9)
    assert RankWork.from_json(work.to_json()) == work
    assert str(work) == (
        "rank 1 (cpu on a): computed 75% of the time, link busy 50%, of which 25% hidden, input 10%; "
        "2 G multiply-adds/s, 25% of a matrix product's 8 G"
    )
