"""What a cluster cannot train is refused before the first step, with the place of the setting."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

import netweave
from netweave.errors import UnsupportedError, UsageError
from netweave.job import Cluster
from netweave.runtime.backends.torch.node_memory import OperatorState
from netweave.training.cluster.part import require_trainable
from netweave.training.optim.rule import make_rule
from netweave.training.rank_exchange import RankExchange
from netweave.training.watchers import TrainOptions
from tests.training.parallel import nets

TWO = {"worker_groups": 2, "file": "job.conf", "lines": {"worker_groups": 3}}


def check(tmp_path, cluster, net="mlp", solver="", **options):
    job = netweave.load_job(nets.write(tmp_path, net, steps=1, solver=solver))
    job = replace(job, cluster=Cluster(**cluster))
    measures = make_rule(job.solver.kind, job.solver.settings).measures
    require_trainable(job, TrainOptions(**options), measures=measures)


def test_norms_over_all_gradients_with_asynchronous_servers(tmp_path):
    with pytest.raises(UsageError, match=r"^job.conf:3: caffe.adam with these settings needs norms over all"):
        check(tmp_path, TWO, solver=nets.CLIPPED)
    check(tmp_path, {**TWO, "server_groups": 2}, solver=nets.CLIPPED)  # each group has servers of its own
    check(tmp_path, {"workers_per_group": 2}, solver=nets.CLIPPED)
    check(tmp_path, TWO)


def test_statistics_of_batches_across_groups(tmp_path):
    with pytest.raises(UsageError, match=r"net.prototxt:\d+.*batch normalisation cannot take the statistics"):
        check(tmp_path, TWO, "resnet")
    check(tmp_path, TWO, "resnet", sync_batch_norm=False)
    check(tmp_path, {"workers_per_group": 2}, "resnet")


@pytest.mark.parametrize(("name", "value"), [("exchange", "owner"), ("same_bits", 2), ("memory", "1GB")])
def test_options_that_are_for_processes_without_servers(name, value, tmp_path):
    with pytest.raises(UsageError, match=f"^{name} does not go with a cluster"):
        check(tmp_path, TWO, **{name: value})


def test_state_that_is_kept_for_each_sample(tmp_path):
    """Groups take turns at batches, so that a stream would lose its place, even with one worker in each."""
    job = netweave.load_job(nets.write(tmp_path, "mlp", steps=1))
    part = SimpleNamespace(cluster=Cluster(worker_groups=2))
    net = SimpleNamespace(
        module=SimpleNamespace(lstm=OperatorState(dict)), set_whole_batch=lambda batch: None
    )
    ranks = SimpleNamespace(world=SimpleNamespace(size=1, part=part), _batch=None)
    with pytest.raises(UnsupportedError, match="lstm keep their state from batch to batch"):
        RankExchange.join_batch(ranks, net, job)
    ranks.world.part = None
    RankExchange.join_batch(ranks, net, job)
