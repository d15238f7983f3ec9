"""Roles, placements and refusals of clusters, without processes."""

from __future__ import annotations

import itertools

import pytest

from netweave.errors import UsageError
from netweave.job import PLACEMENTS, Cluster
from netweave.training.cluster.topology import plan_topology

ALEXNET = {
    "conv1/w": 23_232,
    "conv1/b": 64,
    "conv2/w": 307_200,
    "conv2/b": 192,
    "conv3/w": 663_552,
    "conv3/b": 384,
    "conv4/w": 884_736,
    "conv4/b": 256,
    "conv5/w": 589_824,
    "conv5/b": 256,
    "fc6/w": 37_748_736,
    "fc6/b": 4096,
    "fc7/w": 16_777_216,
    "fc7/b": 4096,
    "fc8/w": 4_096_000,
    "fc8/b": 1000,
}
"""The AlexNet of one column ("One weird trick for parallelizing convolutional neural networks")."""

FOUR = {"servers_per_group": 4, "separate": True}


@pytest.mark.parametrize(
    ("placement", "least", "most"),
    [("slices", 1.0, 1.05), ("round-robin", 2.815, 2.825), ("split", 1.0, 1.06), ("boxes", 1.0, 1.1)],
)
def test_balance_of_alexnet_on_four_servers(placement, least, most):
    topology = plan_topology(Cluster(placement=placement, **FOUR), ALEXNET)
    assert least <= topology.imbalance <= most


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("servers", [1, 2, 3, 5])
def test_every_element_is_held_once(placement, servers):
    topology = plan_topology(Cluster(servers_per_group=servers, separate=True, placement=placement), ALEXNET)
    held = {key: [] for key in ALEXNET}
    for spans in topology.placement.layout.slices:
        for span in spans:
            held[span.key].append((span.start, span.stop))
    for key, size in ALEXNET.items():
        spans = sorted(held[key])
        assert spans[0][0] == 0
        assert spans[-1][1] == size
        assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))
    assert set(topology.placement.holders) == set(range(servers))


def test_mxnet_cuts_arrays_of_a_million_elements_and_hashes_the_others():
    """``EncodeDefaultKey``: parts end at rounded multiples; small keys go to key x 9973 modulo servers."""
    sizes = {"small": 999_999, "big": 1_000_000, "other": 5}
    placement = plan_topology(Cluster(servers_per_group=3, separate=True, placement="split"), sizes).placement
    assert placement.elements == (999_999, 333_333, 333_334, 333_333, 5)
    assert placement.holders == (0, 0, 1, 2, 2 * 9973 % 3)


def test_boxes_are_filled_and_cut_as_singa_does():
    """A box of 10 takes 11 as a whole, and cuts what is larger; worked out by hand from its rule."""
    sizes = {"a": 11, "b": 4, "c": 15}
    placement = plan_topology(Cluster(servers_per_group=3, separate=True, placement="boxes"), sizes).placement
    assert placement.elements == (11, 4, 6, 9)
    assert placement.holders == (0, 1, 1, 2)


@pytest.mark.parametrize(
    ("settings", "roles"),
    [
        ({"workers_per_group": 3, **FOUR}, "w00 w01 w02 s00 s01 s02 s03"),
        ({"workers_per_group": 3, "servers_per_group": 3}, "w00s00 w01s01 w02s02"),
        ({"workers_per_group": 2, "servers_per_group": 3}, "w00s00 w01s01 s02"),
        (
            {"worker_groups": 2, "workers_per_group": 2, "servers_per_group": 2, "separate": True},
            "w00 w01 w10 w11 s00 s01",
        ),
        ({"worker_groups": 3, "server_groups": 3}, "w00s00 w10s10 w20s20"),
        ({"worker_groups": 4, "server_groups": 2}, "w00s00 w10 w20s10 w30"),
    ],
)
def test_roles(settings, roles):
    cluster = Cluster(**settings)
    topology = plan_topology(cluster, ALEXNET)
    found = [
        "".join(
            f"{kind}{member.group}{member.number}"
            for kind, member in (("w", role.worker), ("s", role.server))
            if member is not None
        )
        for role in topology.roles
    ]
    assert " ".join(found) == roles
    assert cluster.num_processes == len(found)


def test_worker_groups_share_server_groups_in_order():
    topology = plan_topology(Cluster(worker_groups=4, server_groups=2), ALEXNET)
    assert [topology.server_group_of(group) for group in range(4)] == [0, 0, 1, 1]
    assert topology.served_by(1) == (2, 3)
    assert topology.server_rank(1, 0) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers_per_group": 0}, "cluster: workers_per_group is 0, expected 1 or more"),
        ({"staleness": -1}, "staleness is -1, expected 0 or more"),
        ({"worker_groups": 3, "server_groups": 2}, "3 worker groups cannot be divided among 2 server groups"),
        ({"placement": "ring"}, "placement is 'ring', expected one of slices, round-robin, split, boxes"),
        ({"outer": "adam"}, "outer is 'adam', expected one of sum, average, nesterov, elastic"),
        ({"outer": "elastic", "outer_rate": 1.0}, "outer_rate is 1.0, expected more than 0 and less than 1"),
        ({"outer_momentum": 1.0}, "outer_momentum is 1.0"),
    ],
)
def test_settings_that_cannot_be(settings, message):
    with pytest.raises(UsageError, match=message):
        Cluster(**settings)


def test_a_server_that_would_hold_nothing_is_refused():
    cluster = Cluster(
        servers_per_group=3, placement="round-robin", file="job.conf", lines={"servers_per_group": 7}
    )
    with pytest.raises(UsageError, match=r"^job.conf:7: server 2 of 3 would hold no parameter"):
        plan_topology(cluster, {"a": 5, "b": 5})


def test_a_rule_that_needs_whole_parameters_gets_them():
    whole = plan_topology(Cluster(**FOUR), ALEXNET, whole_parameters=True).placement
    assert all(
        len([n for n, s in enumerate(whole.layout.slices) if any(x.key == key for x in s)]) == 1
        for key in ALEXNET
    )
    with pytest.raises(
        UsageError, match="'split' cuts parameters, and the update rule needs each of them whole"
    ):
        plan_topology(Cluster(placement="split", **FOUR), ALEXNET, whole_parameters=True)


def test_another_number_of_processes_is_refused():
    cluster = Cluster(workers_per_group=2, servers_per_group=3, separate=True)
    cluster.require_processes(5)
    with pytest.raises(
        UsageError, match=r"2 workers and 3 servers.*needs 5 processes, found 2; give --devices cpu:5"
    ):
        cluster.require_processes(2)
