"""Nets that are cut by layer, from the user's files to the trained net."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave import api
from netweave.errors import UnsupportedError, UsageError
from netweave.training import Evaluated, Note
from tests.formats.singa.nets import layer
from tests.training.parallel import nets
from tests.training.singa_jobs import GAUSSIAN, RATE, ZERO, data, job_text, params, product

LAYERS = """nworkers_per_group: 3
layer { name: "conv1" location: 2 }
layer { name: "bn1" location: 2 }
layer { name: "conv2" partition_dim: 1 }
layer { name: "bn2" partition_dim: 1 }
layer { name: "drop" partition_dim: 1 }
layer { name: "out" partition_dim: 1 }
"""


def arrays_of(net):
    return {key: tensor.detach().numpy().copy() for key, tensor in net.params.items()}


def require_equal(found, expected, tolerance):
    assert found.keys() == expected.keys()
    for key in expected:
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=tolerance, err_msg=key)


@pytest.mark.multi
@pytest.mark.slow
def test_a_caffe_net_is_cut_as_a_cluster_file_says(tmp_path):
    job = nets.job(nets.write(tmp_path, "resnet", steps=6))
    cluster = tmp_path / "cluster.conf"
    cluster.write_text(LAYERS)
    records = {"train": {key: array.astype(np.float32) for key, array in nets.records().items()}}
    seen = []
    options = {"data": records, "batch": "split", "seed": 4}
    net = netweave.train(job, devices="cpu:3", cluster=cluster, watch=seen.append, **options)
    require_equal(arrays_of(net), arrays_of(netweave.train(job, data=records, seed=4)), 2e-5)
    notes = [event.text for event in seen if isinstance(event, Note)]
    assert any(
        note.startswith("3 workers hold 105, 66, 146 of 283 parameters; 9 connections") for note in notes
    )


NET = (
    data()
    + product("hidden", 5, params(w=GAUSSIAN, b=ZERO), source="data")
    + layer("kReLU", "location: 1", sources="hidden", name="relu")
    + product("out", 3, params(v=GAUSSIAN, c=ZERO), source="relu")
    + layer("kSoftmaxLoss", sources="out data", name="loss")
)
CLUSTER = "nworkers_per_group: 2"


def singa_job(folder, *, net=NET, cluster=CLUSTER):
    text = job_text(
        net, updater=f"type: kSGD {RATE}", alg="kBP", more="train_steps: 5", workspace=str(folder)
    )
    text = text.replace("neuralnet {", "neuralnet { partition_dim: 1").replace(
        "cluster {", f"cluster {{ {cluster}"
    )
    (folder / "job.conf").write_text(text)
    return netweave.load_job(folder / "job.conf")


@pytest.mark.multi
@pytest.mark.slow
def test_a_job_conf_says_how_its_layers_are_cut(tmp_path):
    job = singa_job(tmp_path)
    draw = np.random.default_rng(0)
    records = {"train": {"data": draw.normal(size=(20, 6)), "data@label": draw.integers(3, size=20)}}
    names = job.phases["train"].data[0].outputs
    records = {"train": dict(zip(names, records["train"].values(), strict=True))}
    net = netweave.train(job, data=records, devices="cpu:2", seed=4)
    require_equal(arrays_of(net), arrays_of(netweave.train(job, data=records, seed=4)), 1e-6)


def test_a_job_conf_with_its_net_cut_by_feature_reads_the_cut_of_each_layer(tmp_path):
    cuts = {cut.name: (cut.partition_dim, cut.location) for cut in singa_job(tmp_path).cluster.cuts}
    assert cuts["relu"] == (1, 1)
    assert cuts["out"] == (1, None)


PLAN_ERRORS = [
    (
        'layer { name: "conv1" location: 3 }',
        UsageError,
        r"c.conf:2: the location of layer 'conv1' is 3, and a group has 3",
    ),
    (
        'layer { name: "conv1" partition_dim: 4 }',
        UsageError,
        r"c.conf:2: partition_dim of layer 'conv1' is 4, expected 0",
    ),
    (
        'layer { name: "conv9" partition_dim: 1 }',
        UsageError,
        r"c.conf:2: the net has no layer 'conv9'; the nearest name is",
    ),
    (
        'layer { name: "conv1" partition_dim: 1 }\nnworker_groups: 2',
        UsageError,
        r"c.conf:3: layer 'conv1' is cut across the workers of a group; that is supported for one group",
    ),
]


@pytest.fixture
def graph(tmp_path):
    return nets.job(nets.write(tmp_path, "resnet", steps=1)).phases["train"].graph


@pytest.mark.parametrize(("line", "kind", "message"), PLAN_ERRORS)
def test_what_cannot_be_is_refused_with_its_line(graph, line, kind, message, tmp_path):
    (tmp_path / "c.conf").write_text(f"nworkers_per_group: 3\n{line}")
    with pytest.raises(kind, match=message):
        api.plan_partition(graph, tmp_path / "c.conf")


def test_a_layer_with_fewer_features_than_workers_cannot_be_cut_so(graph):
    cluster = netweave.Cluster(workers_per_group=5, layers=(netweave.LayerCut("conv1", 1),))
    with pytest.raises(
        UnsupportedError,
        match=r"net.prototxt:\d+: layer 'conv1' \(Conv\) cannot be cut by feature among 5 workers: "
        "use partition_dim: 0",
    ):
        api.plan_partition(graph, cluster)


REFUSED = [
    (
        {"same_bits": 4},
        UsageError,
        r"layer 'conv1' is cut across workers, so that sums depend on their number",
    ),
    ({"memory": "1GB"}, UsageError, r"memory is not supported for such a net"),
    ({"sync_batch_norm": False}, UsageError, r"sync_batch_norm is not supported"),
    ({"monitor": ".*"}, UnsupportedError, r"looking at its values while it trains"),
]


def refuse(folder, change, cut, **options):
    """Ask for a cut of a job among two workers."""
    from netweave.training.partition_ranks import partition_of
    from netweave.training.watchers import TrainOptions

    class TwoRanks:
        size, rank = 2, 0

    job = change(nets.job(nets.write(folder, "resnet", steps=1)))
    cluster = netweave.Cluster(workers_per_group=2, layers=(cut,))
    partition_of(replace(job, cluster=cluster), TrainOptions(**options), TwoRanks())


JOBS = [
    (
        lambda job: replace(job, solver=replace(job.solver, kind="mxnet.sgld", settings={})),
        "needs each parameter whole",
    ),
    (lambda job: replace(job, algorithm="cd"), "contrastive divergence is not supported"),
    (lambda job: replace(job, checkpoints=replace(job.checkpoints, gradients=True)), "snapshot_diff"),
    (lambda job: replace(job, schedule=replace(job.schedule, display_norms=True)), "looking at its values"),
    (
        lambda job: replace(job, phases={"train": replace(job.phases["train"], metric={"kind": "voc"})}),
        "the metric of phase 'train' needs whole batches",
    ),
]


@pytest.mark.parametrize(("change", "message"), JOBS)
def test_jobs_that_a_cut_net_cannot_do(change, message, tmp_path):
    with pytest.raises(UnsupportedError, match=message):
        refuse(tmp_path, change, netweave.LayerCut("conv1", 1))


def test_the_state_of_another_program_is_not_resumed_by_a_cut_net():
    from netweave.training.partition_ranks import PartitionedState

    with pytest.raises(
        UnsupportedError, match=r"a.solverstate: a net that is cut across workers resumes from a \.checkp"
    ):
        PartitionedState(None, {}, None, None).restore_foreign(Path("a.solverstate"))


@pytest.mark.parametrize(("options", "kind", "message"), REFUSED)
def test_options_that_a_cut_net_has_not(options, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        refuse(tmp_path, lambda job: job, netweave.LayerCut("conv1", 1), **options)


def job_with_tests(folder):
    """Return a Job that tests every second update and gives a row for each sample besides its loss."""
    found = nets.job(nets.write(folder, "mlp", steps=4))
    net = folder / "net.prototxt"
    net.write_text(net.read_text() + 'layer { name: "prob" type: "Softmax" bottom: "out" top: "prob" }\n')
    train = netweave.load_job(folder / "solver.prototxt").phases["train"]
    data = tuple(replace(source, order={**source.order, "shuffle": False}) for source in train.data)
    train = replace(train, data=data)
    schedule = replace(found.schedule, test_interval=2, display_interval=1, display_at_end=True)
    return replace(found, phases={"train": train, "test": replace(train, num_batches=3)}, schedule=schedule)


@pytest.mark.multi
@pytest.mark.slow
def test_tests_and_rows_of_samples_are_those_of_one_process(tmp_path):
    job = job_with_tests(tmp_path)
    layers = (netweave.LayerCut("ip1", 1), netweave.LayerCut("relu", None, 2))
    cluster = netweave.Cluster(workers_per_group=3, layers=layers)
    arrays = {key: array.astype(np.float32) for key, array in nets.records().items()}
    records = {"train": arrays, "test": arrays}
    seen = [[], []]
    options = {"data": records, "seed": 4}
    netweave.train(job, devices="cpu:3", batch="split", cluster=cluster, watch=seen[0].append, **options)
    netweave.train(job, watch=seen[1].append, **options)
    found, expected = ([event for event in events if isinstance(event, Evaluated)] for events in seen)
    assert len(found) == len(expected) == 3
    for own, whole in zip(found, expected, strict=True):
        assert own.outputs.keys() == whole.outputs.keys() == {"accuracy", "loss", "prob"}
        for name, values in whole.outputs.items():
            np.testing.assert_allclose(own.outputs[name], values, rtol=0, atol=1e-5, err_msg=name)
