"""Servers in one process: rules, counting, bounds, checkpoints."""

from __future__ import annotations

import random
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from netweave.errors import PeerError, ReadError, RunError
from netweave.job import PLACEMENTS, Cluster, Policy, Solver
from netweave.training.cluster.server import Push, Server
from netweave.training.cluster.topology import place
from netweave.training.cluster.updates import JobSlices, ServedUpdater
from netweave.training.optim import Trained, Updater
from tests.training.cluster.processes import damaged

SIZES = {"a": (7, 30), "b": (30,), "c": (5, 3, 2, 2)}

SOLVERS = {
    "sgd": Solver("singa.sgd", Policy("singa.fixed", 0.1), {"momentum": 0.9, "weight_decay": 0.01}),
    "adam": Solver(
        "caffe.adam",
        Policy("caffe.step", 0.01, {"gamma": 0.5, "stepsize": 3}),
        {"momentum": 0.9, "momentum2": 0.999, "delta": 1e-8, "weight_decay": 0.001},
    ),
    "clipped": Solver(
        "caffe.sgd", Policy("caffe.fixed", 0.1), {"momentum": 0.9, "weight_decay": 0.0, "clip_gradients": 0.5}
    ),
}


def parameters(seed=0):
    generator = np.random.default_rng(seed)
    tensors = {key: torch.from_numpy(generator.normal(size=shape)) for key, shape in SIZES.items()}
    return [Trained(key, tensor, 1.0 + (key == "b"), float(key != "b")) for key, tensor in tensors.items()]


class Row:
    """A slice of ten numbers from which gradients are subtracted."""

    def __init__(self):
        self.row = torch.zeros(10, dtype=torch.float64)

    def values(self, number):
        return self.row.clone()

    def set_values(self, number, values):
        self.row.copy_(values)

    def rows(self, number):
        return self.row[None].clone()

    def set_rows(self, number, rows):
        self.row.copy_(rows[0])

    def apply(self, push, version):
        self.row -= push.gradient


def one_push(group, sequence, version=0):
    return Push(group, 0, sequence, version, torch.ones(10, dtype=torch.float64), 1.0)


def row_server(groups=(0,), **settings):
    server = Server(Row(), groups, **settings)
    server.put(0, torch.zeros(1, 10, dtype=torch.float64), sequence=0, version=0)
    return server


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_served_update_is_that_of_the_rule(solver, placement):
    cluster = Cluster(servers_per_group=2, placement=placement)
    sizes = {key: int(np.prod(shape)) for key, shape in SIZES.items()}
    placed = place(cluster, sizes)
    own = Updater(SOLVERS[solver], parameters())
    served = ServedUpdater(SOLVERS[solver], parameters(), holders=placed.holders, layout=placed.layout)
    servers = [
        Server(JobSlices(Updater(SOLVERS[solver], parameters(seed=9), layout=placed.layout)), [0])
        for _ in range(2)
    ]
    served.connect(servers, 0)
    served.put()
    generator = np.random.default_rng(3)
    for _ in range(7):
        for key, shape in SIZES.items():
            gradient = torch.from_numpy(generator.normal(size=shape))
            own.parameters[key].grad = gradient
            served.parameters[key].grad = gradient.clone()
        own.step()
        served.step()
    for key, tensor in own.parameters.items():
        assert torch.allclose(served.parameters[key], tensor, rtol=0, atol=1e-15)
    served.fetch()
    for key, kept in own.state.items():
        for name, tensor in kept.items():
            assert torch.allclose(served.state[key][name], tensor, rtol=0, atol=1e-14)


def test_a_push_that_comes_again_is_not_applied_again():
    server = row_server()
    for sequence in (1, 2, 2, 1, 3, 3):
        (answer,) = server.push(one_push(0, sequence))
    assert (answer.version, answer.values[0]) == (3, -3)
    assert (server.applied, server.repeated) == (3, 3)


def test_a_missing_push_is_noticed():
    server = row_server()
    server.push(one_push(0, 1))
    with pytest.raises(
        RunError, match="worker group 0 pushes update 3, expected 2; the updates between are lost"
    ):
        server.push(one_push(0, 3))


@pytest.mark.parametrize("bound", [0, 1, 4])
def test_nobody_is_further_ahead_than_the_bound(bound):
    """Three groups push 10,000 updates; one of them stops in between."""
    counts = {0: 4000, 1: 4000, 2: 2000}
    server = row_server(counts, staleness=bound)
    stopped = threading.Event()
    errors = []

    def work(group):
        version = 0
        try:
            for sequence in range(1, counts[group] + 1):
                if group == 2 and sequence == 1000:
                    stopped.wait(0.5)
                version = server.push(one_push(group, sequence, version))[0].version
            server.leave(group)
        except PeerError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(group,)) for group in counts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert server.applied == sum(counts.values()) == sum(server.leads.values())
    assert server.push(one_push(0, 1))[0].values[0] == -10_000
    assert max(server.leads) <= bound
    assert not bound or max(server.leads) == bound
    assert sum(age * count for age, count in server.ages.items()) > 0


def test_the_slowest_group_is_named_after_the_timeout():
    server = row_server((0, 1), staleness=2, timeout_s=0.2)
    server.push(one_push(0, 1))
    server.push(one_push(0, 2))
    with pytest.raises(
        PeerError, match=r"has waited 0 s for worker group 1 to push update 1: it is the slowest"
    ):
        server.push(one_push(0, 3))


def test_a_group_that_has_left_holds_nobody_up():
    server = row_server((0, 1), staleness=0, timeout_s=5)
    server.leave(1)
    for sequence in range(1, 5):
        server.push(one_push(0, sequence))
    assert server.applied == 4


def test_a_push_before_the_first_values_waits_for_them():
    server = Server(Row(), [0], timeout_s=5)
    threading.Timer(
        0.1, server.put, (0, torch.ones(1, 10, dtype=torch.float64)), {"sequence": 0, "version": 0}
    ).start()
    assert server.push(one_push(0, 1))[0].values[0] == 0
    with pytest.raises(PeerError, match="has waited 0 s for the first values of slice 1"):
        Server(Row(), [0], timeout_s=0.1).push(replace(one_push(0, 1), number=1))


def test_a_server_goes_on_from_its_checkpoint_and_counts_on(tmp_path):
    whole, first = row_server((0, 1)), row_server((0, 1))
    for sequence in range(1, 6):
        for server in (whole, first):
            server.push(one_push(0, sequence))
            server.push(one_push(1, sequence, sequence))
    first.save(tmp_path / "server.checkpoint")
    again = Server(Row(), (0, 1))
    again.restore(tmp_path / "server.checkpoint")
    for server in (whole, again):
        server.push(one_push(0, 5))  # its answer was lost
        server.push(one_push(0, 6))
    assert whole.pull(0).values.equal(again.pull(0).values)
    assert (again.applied, again.repeated, again.ages) == (whole.applied, whole.repeated, whole.ages)
    assert (again.applied, again.pull(0).values[0]) == (11, -11)


def test_a_group_that_starts_again_learns_what_was_applied_and_all_of_it_is_saved(tmp_path):
    server = row_server((0, 1))
    server.checkpoint = tmp_path / "server.checkpoint"
    for sequence in (1, 2, 3):
        server.push(one_push(1, sequence))
    assert server.saved(1, 0) < 0
    assert server.resume(1) == {0: 3}
    assert server.saved(1, 0) == 3
    server.leave(1)
    again = Server(Row(), (0, 1), staleness=0, timeout_s=5)
    again.restore(server.checkpoint)
    assert again.saved(1, 0) == 3
    assert again.push(one_push(0, 1))[0].values[0] == -4  # and nobody waits for who had left


def test_a_damaged_checkpoint_of_a_server_is_noticed(tmp_path):
    path = tmp_path / "server.checkpoint"
    row_server().save(path)
    content = path.read_bytes()
    draw = random.Random(0)
    for _ in range(100):
        path.write_bytes(damaged(content, draw))
        with pytest.raises(ReadError):
            Server(Row(), [0]).restore(path)
