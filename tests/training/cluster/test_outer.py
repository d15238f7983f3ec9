"""Server groups that are synchronised, in one process; expected values by each rule's formula in NumPy."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from netweave.errors import PeerError
from netweave.job import Cluster
from netweave.training.cluster.outer import Synchroniser
from netweave.training.cluster.server import Push, Server
from tests.training.cluster.test_server import Row

GROUPS, ROUNDS = 3, 5


def servers(rule, groups=GROUPS, timeout_s=5.0, **settings):
    """Return the servers of one slice, whose master is group 1."""
    cluster = Cluster(worker_groups=groups, server_groups=groups, outer=rule, **settings)
    others = [{} for _ in range(groups)]
    made = [
        Server(
            Row(),
            [group],
            synchroniser=Synchroniser(cluster, group, [1 % groups], others[group], timeout_s=timeout_s),
        )
        for group in range(groups)
    ]
    for group in range(groups):
        others[group].update({other: made[other] for other in range(groups) if other != group})
    for one in made:
        one.put(0, torch.ones(1, 10, dtype=torch.float64), sequence=0, version=0)
    return made


def gradients(groups=GROUPS):
    return np.random.default_rng(0).normal(size=(ROUNDS, groups, 10))


def push(server, group, sequence, gradient):
    server.push(Push(group, 0, sequence, 0, torch.from_numpy(gradient.copy()), 1.0))


def rounds(made, drawn):
    """Yield the values of all groups after each round, in which all are synchronised at the same time."""
    for number, row in enumerate(drawn, start=1):
        for group, server in enumerate(made):
            push(server, group, number, row[group])
        threads = [threading.Thread(target=server.synchronise, args=(0,)) for server in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield [server.pull(0).values.numpy() for server in made]


def test_average_is_the_mean_of_all_groups():
    center = np.ones(10)
    for values, row in zip(rounds(servers("average"), gradients()), gradients(), strict=True):
        center = center - row.mean(0)
        for found in values:
            np.testing.assert_allclose(found, center, rtol=0, atol=1e-14)


@pytest.mark.parametrize("settings", [{}, {"outer_rate": 0.3, "outer_momentum": 0.5}])
def test_nesterov_is_torchs_rule_on_the_mean_change(settings):
    center = torch.ones(10, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD(
        [center],
        lr=settings.get("outer_rate", 0.7),
        momentum=settings.get("outer_momentum", 0.9),
        nesterov=True,
    )
    for values, row in zip(rounds(servers("nesterov", **settings), gradients()), gradients(), strict=True):
        center.grad = torch.from_numpy(row.mean(0))
        optimizer.step()
        for found in values:
            np.testing.assert_allclose(found, center.detach().numpy(), rtol=0, atol=1e-14)


def test_elastic_draws_each_group_and_the_centre_to_each_other():
    made, rate = servers("elastic"), 0.9 / GROUPS
    center, own = np.ones(10), np.ones((GROUPS, 10))
    for number, row in enumerate(gradients(), start=1):
        for group, server in enumerate(made):  # one after another, so that the order is known
            push(server, group, number, row[group])
            own[group] -= row[group]
            moved = rate * (own[group] - center)
            own[group] -= moved
            center = center + moved
            found = server.synchronise(0).values.numpy()
            np.testing.assert_allclose(found, own[group], rtol=0, atol=1e-14)


def test_sum_adds_every_group_s_changes_once():
    """SINGA's ``cur += master - prev``: when all have been synchronised, all hold the sum of all changes."""
    made, drawn = servers("sum"), gradients()
    for number, row in enumerate(drawn, start=1):
        for group, server in enumerate(made):
            push(server, group, number, row[group])
            if number % 2:
                server.synchronise(0)
    for server in (*made, *made):
        server.synchronise(0)
    for server in made:
        np.testing.assert_allclose(server.pull(0).values.numpy(), 1 - drawn.sum((0, 1)), rtol=0, atol=1e-13)


def test_updates_that_come_while_a_slice_is_synchronised_are_kept():
    made = servers("average", groups=2)
    push(made[0], 0, 1, np.full(10, 2.0))
    thread = threading.Thread(target=made[0].synchronise, args=(0,))
    thread.start()
    while not made[1]._synchroniser._center._sent[0]:
        pass
    push(made[0], 0, 2, np.full(10, 5.0))
    made[1].synchronise(0)
    thread.join()
    assert made[1].pull(0).values[0] == 0  # the mean of 1 - 2 and 1
    assert made[0].pull(0).values[0] == -5


def test_what_others_add_while_the_master_is_synchronised_is_kept(monkeypatch):
    made = servers("sum", groups=2)
    push(made[0], 0, 1, np.full(10, 2.0))
    push(made[1], 1, 1, np.full(10, 5.0))
    own = made[1]._synchroniser.exchange

    def exchange(number, values):
        made[0].synchronise(0)
        return own(number, values)

    monkeypatch.setattr(made[1]._synchroniser, "exchange", exchange)
    assert made[1].synchronise(0).values[0] == -6
    assert made[1].pull(0).values[0] == -6


def test_nobody_waits_for_a_group_that_has_ended():
    made = servers("average", groups=2)
    push(made[0], 0, 1, np.full(10, 2.0))
    made[1].leave(1)
    assert made[0].synchronise(0).values[0] == -1


def test_a_group_that_does_not_come_is_named():
    made = servers("average", groups=2, timeout_s=0.1)
    with pytest.raises(PeerError, match="server group 0 has waited 0 s for group 1 to be synchronised"):
        made[0].synchronise(0)
