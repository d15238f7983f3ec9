"""Stages of a pipeline: where nets are cut, what goes from stage to stage, and the order of passes."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import netweave
from netweave.errors import UnsupportedError, UsageError
from netweave.graph.passes.partition import (
    LayerCut,
    locations,
    partition_plan,
    pipeline_plan,
    sent_values,
    stage_graph,
)
from netweave.graph.passes.partition.shardings import on_worker
from netweave.job import Cluster
from netweave.runtime.backends.torch import TorchNet
from netweave.training.events import Note
from netweave.training.parallel.plan import BACKWARD, FORWARD, num_held, passes_of
from netweave.training.partition_ranks import partition_of
from netweave.training.partitioned import Partition, placement_lines
from netweave.training.pipeline import MicroBatch, counted_losses
from netweave.training.watchers import TrainOptions
from tests.training.parallel import nets
from tests.training.test_partitioned import DrawnNet, conv, dense, inputs, layer


@given(
    st.sampled_from(["1f1b", "gpipe"]),
    st.integers(1, 5),
    st.integers(1, 9),
    st.randoms(use_true_random=False),
)
def test_stages_never_wait_for_each_other_for_ever(order, size, count, random):
    """Whichever stage goes on first, all passes are made, each once, and few activations are held."""
    waiting = [passes_of(order, stage, size, count) for stage in range(size)]
    done, held = set(), [0] * size
    while any(waiting):
        ready = []
        for stage, passes in enumerate(waiting):
            if not passes:
                continue
            kind, number = passes[0]
            before = range(stage) if kind == FORWARD else range(stage + 1, size)
            if all((other, kind, number) in done for other in before):
                ready.append(stage)
        stage = random.choice(ready)
        kind, number = waiting[stage].pop(0)
        assert (stage, kind, number) not in done
        assert kind == FORWARD or (stage, FORWARD, number) in done
        done.add((stage, kind, number))
        held[stage] += 1 if kind == FORWARD else -1
        assert held[stage] <= num_held(order, stage, size, count)
    assert len(done) == 2 * size * count
    assert {kind for _, kind, _ in done} == {FORWARD, BACKWARD}


def drawn_locations(net, draw, workers):
    """Return locations of some layers, in the order of the net, or none: the net is then cut by cost."""
    if draw.random() < 0.3:
        return []
    chosen = sorted(draw.choice(len(net.names), size=workers - 1, replace=False))
    return [LayerCut(net.names[0], None, 0)] + [
        LayerCut(net.names[number], None, stage) for stage, number in enumerate(chosen, 1)
    ]


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_stages_one_after_another_compute_the_net(seed, tmp_path_factory):
    draw, net = np.random.default_rng(seed), DrawnNet(seed)
    training = net.training(tmp_path_factory.mktemp("net"))
    workers = int(draw.integers(2, 4))
    cuts = drawn_locations(net, draw, workers)
    try:
        plan = pipeline_plan(training.graph, cuts, num_workers=workers, num_rows=net.rows)
    except UsageError as error:
        assert re.search("can be cut into|lives on worker", str(error))  # noqa: PT017 - few layers were drawn
        return
    whole = training.whole_net().eval()
    values = dict(training.batches[0])
    expected = whole(**values)
    seen = []
    for stage in range(workers):
        part = TorchNet(stage_graph(plan, stage)).to(torch.float64).eval()
        for key in part.params:
            part.params[key] = whole.params[key].detach()
        seen += list(part.params)
        values |= part(**{value.name: values[value.name] for value in part.graph.inputs})
    assert sorted(seen) == sorted(whole.params)
    for name, tensor in expected.items():
        torch.testing.assert_close(values[name], tensor, rtol=1e-12, atol=1e-12)
    moved = {(edge.before.worker, edge.after.worker) for edge in plan.edges.values()}
    assert moved == set(sent_values(plan))
    assert all(before < after for before, after in moved)


def net_of(folder, text, rows=6, sizes=(3, 5, 5)):
    (folder / "net.prototxt").write_text(inputs(rows, *sizes) + text)
    return netweave.load(folder / "net.prototxt", phase="TRAIN")


CHAIN = (
    conv("c1", "data", 8)
    + layer("r1", "ReLU", "c1")
    + conv("c2", "r1", 8)
    + dense("out", "c2", 5)
    + layer("loss", "SoftmaxWithLoss", "out label")
)


def test_a_net_without_locations_is_cut_where_its_dearest_stage_is_the_cheapest(tmp_path):
    """c2 has 14,400 multiply-adds for each sample, c1 5,400, out 1,000."""
    plan = pipeline_plan(net_of(tmp_path, CHAIN), [], num_workers=2, num_rows=6)
    assert {cut.name: cut.location for cut in locations(plan)} == {
        "c1": 0,
        "r1": 0,
        "c2": 1,
        "out": 1,
        "loss": 1,
    }
    (edge,) = plan.edges.values()
    assert (edge.op_type, edge.before, edge.after) == ("Bridge", on_worker(0), on_worker(1))
    assert edge.elements == 6 * 8 * 5 * 5


def test_the_place_of_each_layer_is_told_with_what_comes_and_goes(tmp_path):
    """1,200 numbers go from r1 to c2. By feature, each worker needs the other's three samples of 200 numbers.

    15 of the 30 outputs belong to samples of the other worker.
    """
    graph = net_of(tmp_path, CHAIN)
    lines = placement_lines(pipeline_plan(graph, [], num_workers=2, num_rows=6), torch.float32)
    assert lines[1:3] == [
        "r1 (ReLU) on rank 0: all; 0 B in, 4.80 kB out",
        "c2 (Convolution) on rank 1: all; 4.80 kB in, 0 B out",
    ]
    plan = partition_plan(graph, [LayerCut("out", 1)], num_workers=2, num_rows=6)
    assert placement_lines(plan, torch.float64)[2:4] == [
        "c2 (Convolution) on rank 0: samples 0 to 2; rank 1: samples 3 to 5; 0 B in, 0 B out",
        "out (InnerProduct) on rank 0: features 0 to 2; rank 1: features 3 to 4; 9.60 kB in, 120 B out",
    ]


ERRORS = [
    (
        [LayerCut("c1", None, 1, "c.conf:2"), LayerCut("c2", None, 0, "c.conf:3")],
        2,
        UsageError,
        r"c.conf:3: layer 'c2' lives on worker 0, and reads what worker 1 makes; .* give it location 1 or",
    ),
    (
        [LayerCut("c1", None, 0, "c.conf:2"), LayerCut("c2", None, 2, "c.conf:3")],
        3,
        UsageError,
        r"c.conf:2: no layer of .* lives on worker 1, and 3 workers are 3 stages of the pipeline; add `layer",
    ),
    (
        [LayerCut("c1", 1, None, "c.conf:2")],
        2,
        UsageError,
        r"c.conf:2: layer 'c1' is cut by feature, and micro-batches pass through whole layers",
    ),
    (
        [LayerCut("c1", None, 2, "c.conf:2")],
        2,
        UsageError,
        r"c.conf:2: the location of layer 'c1' is 2, and a group has 2 workers",
    ),
    ([], 9, UsageError, r"9 workers are 9 stages of a pipeline, and the net can be cut into 5 at most"),
]


@pytest.mark.parametrize(("cuts", "workers", "kind", "message"), ERRORS)
def test_stages_that_cannot_be_are_refused(cuts, workers, kind, message, tmp_path):
    with pytest.raises(kind, match=message):
        pipeline_plan(net_of(tmp_path, CHAIN), cuts, num_workers=workers, num_rows=6)


def test_what_is_no_row_for_each_sample_does_not_go_from_stage_to_stage(tmp_path):
    text = CHAIN + layer("late", "Power", "loss", "power_param { scale: 2 }")
    cuts = [LayerCut("c1", None, 0), LayerCut("late", None, 1)]
    with pytest.raises(
        UnsupportedError, match="goes from stage 0 to 1 of the pipeline, and is not known to be a"
    ):
        pipeline_plan(net_of(tmp_path, text), cuts, num_workers=2, num_rows=6)


def test_a_parameter_of_two_stages_is_refused(tmp_path):
    shared = 'param { name: "w" } param { name: "b" }'
    text = (
        conv("c1", "data", 3).replace("convolution_param", f"{shared} convolution_param")
        + conv("c2", "c1", 3).replace("convolution_param", f"{shared} convolution_param")
        + dense("out", "c2", 5)
        + layer("loss", "SoftmaxWithLoss", "out label")
    )
    cuts = [LayerCut("c1", None, 0), LayerCut("c2", None, 1)]
    with pytest.raises(
        UnsupportedError, match="belongs to layers on worker 0 and on worker 1; a pipeline needs"
    ):
        pipeline_plan(net_of(tmp_path, text), cuts, num_workers=2, num_rows=6)
    plan = pipeline_plan(net_of(tmp_path, text), [], num_workers=2, num_rows=6)
    where = {cut.name: cut.location for cut in locations(plan)}
    assert where["c1"] == where["c2"]


class TwoRanks:
    size, rank = 2, 0


SEVERAL = "layers live on several workers"

REFUSED = [
    (
        {"micro_batches": 3},
        r"net.prototxt:\d+.*: a batch of 10 records cannot be divided into 3 micro-batches of like size",
    ),
    ({"micro_batches": 2, "exchange": "owner"}, "exchange 'owner' with compression 'none' is for gradients"),
    ({"micro_batches": 2, "same_bits": 2}, f"{SEVERAL}, so that sums depend on their number"),
    ({"micro_batches": 2, "precision": "bf16"}, f"{SEVERAL}, and precision is not supported"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_options_that_a_pipeline_has_not(options, message, tmp_path):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    with pytest.raises(UsageError, match=message):
        partition_of(job, TrainOptions(**options), TwoRanks())


def test_micro_batches_need_devices(tmp_path):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    with pytest.raises(UsageError, match="and there is one; give --devices cpu:2"):
        netweave.train(job, data={"train": nets.records()}, micro_batches=2)


def test_numbers_of_options_are_checked():
    with pytest.raises(UsageError, match="micro_batches is 0, expected at least 1"):
        TrainOptions(micro_batches=0)
    with pytest.raises(UsageError, match="pipeline is 'zigzag', expected 1f1b or gpipe"):
        TrainOptions(pipeline="zigzag")


def test_lines_of_the_log_say_what_stages_have_and_how_a_batch_is_normalised(tmp_path):
    job = nets.job(nets.write(tmp_path, "resnet", steps=1))
    cuts = [LayerCut("conv1", None, 0), LayerCut("bn2", None, 1)]
    lines = Partition(job.running, cuts, num_workers=2, worker=0, micro_batches=5).lines()
    assert lines[0].startswith(
        "stage 0: conv1 to conv2 (5 layers), 241 parameters, sends 2,880 numbers forward"
    )
    assert lines[1].startswith("stage 1: bn2 to ")
    assert "batch normalisation takes the statistics of each micro-batch of 2 samples" in lines[2]


def loss_net(folder, loss):
    return net_of(folder, dense("hidden", "data", 4) + dense("out", "hidden", 5) + loss)


def test_labels_are_counted_before_their_loss_is_computed(tmp_path):
    loss = layer(
        "loss", "SoftmaxWithLoss", "out label", "loss_param { ignore_label: 4 normalization: VALID }"
    )
    plan = pipeline_plan(
        loss_net(tmp_path, loss),
        [LayerCut("hidden", None, 0), LayerCut("out", None, 1)],
        num_workers=2,
        num_rows=6,
    )
    (counted,) = counted_losses(stage_graph(plan, 1), ["label"], torch.float64)
    batch = MicroBatch(2)
    labels = torch.tensor([4.0, 1.0, 4.0])
    (count,) = counted.count({"label": labels})
    assert int(count) == 1
    batch.counts = [torch.tensor(5)]  # of both micro-batches: their mean is over five labels
    assert float(batch.divisor(torch.tensor(1))) == 2.5


def test_a_loss_that_counts_what_the_net_computes_is_refused(tmp_path):
    import netweave.mxnet as mx

    data = mx.sym.Variable("data")
    out = mx.sym.FullyConnected(data, num_hidden=4, name="out")
    loss = mx.sym.MakeLoss(out, normalization="valid", name="loss")
    loss.save(str(tmp_path / "net-symbol.json"))
    graph = netweave.load(tmp_path / "net-symbol.json", input_shapes={"data": (6, 3)})
    with pytest.raises(
        UnsupportedError, match="MakeLoss divides by a number that is counted in what the net"
    ):
        counted_losses(graph, [], torch.float64)


def test_a_pipeline_and_a_cluster_of_other_size(tmp_path):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    cluster = Cluster(workers_per_group=3, layers=(LayerCut("out", None, 2),))
    with pytest.raises(UsageError, match="it needs 3 processes, found 2"):
        netweave.train(job, cluster=cluster, devices="cpu:2", micro_batches=2)


AUTO_ERRORS = [
    ({}, "cluster 'auto' plans for several processes of this machine; give --devices cpu:2"),
    ({"devices": "cpu:2", "exchange": "owner"}, "cluster 'auto' chooses exchange and micro_batches itself"),
    (
        {"devices": "0,1"},
        "cluster 'auto' measures the processors of this machine, and devices are cuda:0, cuda:1",
    ),
]


@pytest.mark.parametrize(("options", "message"), AUTO_ERRORS)
def test_what_a_plan_cannot_choose_for(options, message, tmp_path):
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    with pytest.raises(UsageError, match=message):
        netweave.train(job, data={"train": nets.records()}, cluster="auto", **options)


@pytest.mark.parametrize("threads", ["1", "2,1", "all"])
def test_no_scheme_is_chosen_that_does_not_fit(threads, tmp_path, monkeypatch):
    """Whatever OMP_NUM_THREADS says, a number for each level of nested regions among it."""
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    job = nets.job(nets.write(tmp_path, "mlp", steps=1))
    monkeypatch.setattr("netweave.api.training.free_bytes", lambda: 1000)
    with pytest.raises(
        UsageError, match=r"no scheme fits: each of 2 processes would hold .* kB at least, and 500 B"
    ):
        netweave.train(job, data={"train": nets.records()}, cluster="auto", devices="cpu:2")


@pytest.mark.multi
@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["pipeline", "hybrid"])
def test_the_fastest_scheme_of_a_plan_is_trained(chosen, tmp_path, monkeypatch):
    """Whichever it is, the run ends where one process ends."""
    from netweave.training import planning

    job = nets.job(nets.write(tmp_path, "mlp", steps=5))
    monkeypatch.setattr(planning, "schemes_of", only(planning.schemes_of, chosen))
    seen = []
    arrays = {key: array.astype(np.float32) for key, array in nets.records().items()}
    records = {"data": {"train": arrays}, "seed": 4}
    net = netweave.train(job, cluster="auto", devices="cpu:2", batch="split", watch=seen.append, **records)
    lines = [event.text for event in seen if isinstance(event, Note)]
    assert lines[0].startswith(f"planned: {chosen}, ")
    expected = netweave.train(job, **records)
    for key, tensor in expected.params.items():
        torch.testing.assert_close(net.params[key], tensor, rtol=0, atol=2e-6)


def only(schemes_of, name):
    """Return a function that finds one of the schemes, so that what is trained does not depend on times."""

    def found(job, network):
        schemes, notes = schemes_of(job, network)
        return [one for one in schemes if one.name == name], notes

    return found
