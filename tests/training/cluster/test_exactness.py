"""Clusters end where one process with the whole batch ends, wherever that is what they promise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from netweave.runtime.engine import ThreadedEngine
from tests.training import char_rnn
from tests.training.cluster.processes import Case, run
from tests.training.parallel import nets
from tests.training.parallel.ranks import Case as Alone
from tests.training.parallel.ranks import alone
from tests.training.trainers import make_trainer

pytestmark = [pytest.mark.multi, pytest.mark.slow]


def sandblaster(workers, servers, **settings):
    return {"workers_per_group": workers, "servers_per_group": servers, "separate": True, **settings}


NETS = ("mlp", "lenet", "grouped")

HOGWILD = {"worker_groups": 3, "server_groups": 3}

STEPS = 10
"""Updates where the result is compared with that of one process."""

CASES = {
    3: [
        Case("sandblaster", sandblaster(2, 1), steps=STEPS),
        Case("grouped", sandblaster(2, 1), "grouped", steps=STEPS),
        Case("clipped", sandblaster(2, 1), solver=nets.CLIPPED, steps=STEPS),
        Case("residual", sandblaster(2, 1), "residual"),
        Case("char_rnn", sandblaster(2, 1), "char_rnn"),
        Case("all-reduce", {"workers_per_group": 3, "servers_per_group": 2}, "lenet", steps=STEPS),
        Case("downpour-of-one", sandblaster(2, 1, staleness=0), steps=STEPS),
        Case("downpour", sandblaster(1, 1, worker_groups=2, staleness=1)),
        Case("hogwild", {**HOGWILD, "sync_every": 2}),
        Case("nesterov", {**HOGWILD, "sync_every": 5, "outer": "nesterov"}),
        Case("average", {**HOGWILD, "sync_every": 1, "outer": "average"}, "lenet", steps=STEPS),
        Case("stopped", HOGWILD, steps=1000, stop=[1, 30]),
        Case("stopped-average", {**HOGWILD, "sync_every": 2, "outer": "average"}, steps=1000, stop=[1, 30]),
        Case("first", sandblaster(2, 1), steps=4, snapshot=4),
        Case("on", sandblaster(2, 1), steps=STEPS, resume="../first/kept_iter_4.checkpoint"),
    ],
    4: [
        Case("separate", {"worker_groups": 2, "server_groups": 2, "separate": True, "sync_every": 4}),
        Case("two-servers", sandblaster(2, 2), "lenet", steps=STEPS),
        Case("mixed", {"workers_per_group": 3, "servers_per_group": 4}, steps=STEPS),
        Case("residual-4", {"workers_per_group": 4}, "residual"),
    ],
}


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clusters")
    return {name: found for size, cases in CASES.items() for name, found in run(folder, cases, size).items()}


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone")
    made = {}

    def of(net, **settings):
        key = f"{net}{settings}"
        if key not in made:
            made[key] = alone(folder / str(len(made)), Alone("alone", net, **settings))
        return made[key]

    return of


def largest_difference(found, expected):
    return max(np.abs(found[key] - expected[key]).max() for key in expected if expected[key].size)


@pytest.mark.parametrize(
    ("name", "net", "settings"),
    [
        ("sandblaster", "mlp", {}),
        ("grouped", "grouped", {}),
        ("clipped", "mlp", {"solver": nets.CLIPPED}),
        ("all-reduce", "lenet", {}),
        ("two-servers", "lenet", {}),
        ("mixed", "mlp", {}),
    ],
)
def test_a_synchronous_cluster_ends_as_one_process(name, net, settings, results, expected):
    assert largest_difference(results[name], expected(net, steps=STEPS, **settings)) < 1e-12


@pytest.mark.parametrize("name", ["residual", "residual-4"])
def test_batch_normalisation_and_dropout_are_those_of_the_whole_batch(name, results, expected):
    assert largest_difference(results[name], expected("residual")) < 1e-12


def test_a_net_of_characters_ends_as_in_one_process(results, tmp_path):
    char_rnn.write(tmp_path, 20)
    with ThreadedEngine() as engine:
        trainer = make_trainer(char_rnn.load(tmp_path), engine=engine, dtype=torch.float64)
        trainer.run()
        trainer.close()
    found = results["char_rnn"]
    for key, tensor in trainer.nets["train"].params.items():
        assert np.abs(found[key] - tensor.detach().numpy()).max() < 1e-12


def test_groups_that_are_averaged_after_each_update_are_one_process_with_all_their_batches(results, tmp_path):
    """Momentum and weight decay are linear in gradients, so the mean of results is that of one process."""
    found = run(tmp_path, [Case("one", {}, "lenet", steps=STEPS, batches=3)], 1)["one"]
    del found["losses"], found["lines"]
    assert largest_difference(results["average"], found) < 1e-12


def test_downpour_with_one_group_and_no_staleness_is_sandblaster_bit_for_bit(results):
    assert largest_difference(results["downpour-of-one"], strip(results["sandblaster"])) == 0


def test_a_resumed_run_ends_as_a_whole_one_bit_for_bit(results):
    whole = strip(results["sandblaster"])
    whole["losses"] = whole["losses"][4:]
    assert largest_difference(results["on"], whole) == 0


@pytest.mark.parametrize(
    ("name", "pushes"), [("downpour", 40), ("hogwild", 20), ("nesterov", 20), ("separate", 20)]
)
def test_asynchronous_groups_learn_and_lose_no_update(name, pushes, results):
    found = results[name]
    assert found["losses"][-5:].mean() < 0.7 * found["losses"][:3].mean()
    (line,) = found["lines"]
    applied = int(line.split()[2])
    assert applied % pushes == 0
    assert applied > 0
    assert " 0 repeated" in line


@pytest.mark.parametrize("name", ["stopped", "stopped-average"])
def test_all_groups_stop_when_one_is_asked_to(name, results):
    assert 30 < len(results[name]["losses"]) < 900


@pytest.mark.exhaustive
@pytest.mark.parametrize("servers", [1, 2, 3])
@pytest.mark.parametrize("workers", [2, 3, 4])
def test_every_number_of_workers_and_servers(workers, servers, tmp_path, expected):
    """AllReduce and Sandblaster: an MLP, LeNet, and a net with groups and normalisation across channels."""
    together = {"workers_per_group": workers, "servers_per_group": servers}
    for cluster, size in (
        (together, max(workers, servers)),
        (sandblaster(workers, servers), workers + servers),
    ):
        found = run(tmp_path, [Case(net, cluster, net) for net in NETS], size)
        for net in NETS:
            assert largest_difference(found[net], expected(net)) < 1e-12


def strip(found):
    return {key: array for key, array in found.items() if key != "lines"}
