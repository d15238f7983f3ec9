"""Several ranks end where one process with the whole batch ends: every exchange, every number of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.training.parallel.plan import EXCHANGES
from tests.training.parallel import nets
from tests.training.parallel.ranks import Case, alone, run

pytestmark = [pytest.mark.multi, pytest.mark.slow]

CASES = [
    *(Case(f"{net}-{exchange}", net, exchange) for net in nets.NETS for exchange in EXCHANGES),
    Case("clipped", exchange="overlapped", solver=nets.CLIPPED),
    Case("clipped-owner", exchange="owner", solver=nets.CLIPPED),
    Case("again", "resnet"),
    Case("one-stage", "resnet", stages=1),
    Case("first", "resnet", steps=7, snapshot=7, folder="resumed"),
    Case("second", "resnet", steps=13, snapshot=13, resume="kept_iter_7.checkpoint", folder="resumed"),
    Case("third", "resnet", resume="kept_iter_13.checkpoint", folder="resumed"),
    Case("owned", solver=nets.CLIPPED, exchange="owner", steps=9, snapshot=9, folder="owned"),
    Case("owned-on", solver=nets.CLIPPED, exchange="owner", resume="kept_iter_9.checkpoint", folder="owned"),
]


@pytest.fixture(scope="module", params=(1, 2, 3, 4))
def results(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"ranks{request.param}")
    return run(folder, CASES, request.param), folder, request.param


def largest_difference(a, b):
    assert a.keys() == b.keys()
    return max(np.abs(a[key] - b[key]).max() for key in a if a[key].size)


def test_ranks_end_as_one_process_on_the_whole_batch(results):
    """Dropout, synchronised batch statistics, ignored labels, and a batch of 10 on 3 and 4 ranks."""
    found, folder, _ = results
    for net in nets.NETS:
        expected = alone(folder / "alone", Case(net, net))
        for exchange in EXCHANGES:
            assert largest_difference(found[f"{net}-{exchange}"], expected) < 1e-12, exchange


def test_a_norm_of_all_gradients_is_that_of_the_whole_batch_wherever_slices_are(results):
    found, folder, _ = results
    expected = alone(folder / "alone", Case("clipped", solver=nets.CLIPPED))
    assert largest_difference(found["clipped"], expected) < 1e-12
    assert largest_difference(found["clipped-owner"], expected) < 1e-12


@pytest.mark.parametrize("net", list(nets.NETS))
def test_orders_of_exchange_end_bit_equal(results, net):
    found, _, _ = results
    for exchange in ("blocking", "prioritised"):
        assert largest_difference(found[f"{net}-{exchange}"], found[f"{net}-overlapped"]) == 0


def test_the_same_run_twice_ends_bit_equal_with_any_number_of_stages(results):
    found, _, _ = results
    assert largest_difference(found["again"], found["resnet-overlapped"]) == 0
    assert largest_difference(found["one-stage"], found["resnet-overlapped"]) == 0


def test_a_run_resumed_twice_ends_bit_equal(results):
    found, _, _ = results
    third = found["third"]
    whole = dict(found["resnet-overlapped"])
    whole["losses"] = whole["losses"][13:]
    assert largest_difference(third, whole) == 0


def test_what_owners_keep_is_in_the_checkpoint(results):
    found, _, _ = results
    whole = dict(found["clipped-owner"])
    whole["losses"] = whole["losses"][9:]
    assert largest_difference(found["owned-on"], whole) == 0


def test_a_checkpoint_goes_on_with_another_number_of_ranks(results):
    """The first rank wrote it; here one process alone goes on, as if it had been alone before."""
    _, folder, _ = results
    whole = dict(alone(folder / "alone", Case("resnet", "resnet")))
    whole["losses"] = whole["losses"][13:]
    on = alone(folder, Case("on", "resnet", resume="kept_iter_13.checkpoint", folder="resumed"))
    assert largest_difference(on, whole) < 1e-12
