"""Nets of other people, cut across workers in every way: workers end where one process ends."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import netweave
from netweave.errors import UnsupportedError, UsageError
from netweave.graph.passes.partition import LayerCut, partition_plan
from tests.training.test_partitioned import require_equal
from tests.training.workers_in_threads import Training

CAFFE = "caffe/head-1.0/"


@dataclass(frozen=True)
class Net:
    """A training net of the corpus, with sizes of its inputs.

    Attributes:
        path: Its file.
        inputs: Sizes without the batch.
        classes: Of its labels.
        rate: Learning rate, low enough that 20 updates do not diverge.
        rows: Samples of a batch.
    """

    path: str
    inputs: dict[str, tuple[int, ...]]
    classes: int
    rate: float = 0.01
    rows: int = 5


NETS = {
    "lenet": Net(f"{CAFFE}examples__mnist__lenet_train_test.prototxt", {"data": (1, 28, 28)}, 10),
    "cifar": Net(f"{CAFFE}examples__cifar10__cifar10_full_train_test.prototxt", {"data": (3, 32, 32)}, 10),
    "cifar-bn": Net(
        f"{CAFFE}examples__cifar10__cifar10_full_sigmoid_train_test_bn.prototxt", {"data": (3, 32, 32)}, 10
    ),
    "alexnet": Net(f"{CAFFE}models__bvlc_alexnet__train_val.prototxt", {"data": (3, 99, 99)}, 1000, 1e-3),
    "googlenet": Net(
        f"{CAFFE}models__bvlc_googlenet__train_val.prototxt", {"data": (3, 224, 224)}, 1000, 1e-3, 4
    ),
}

WAYS = {
    "feature of 3": (3, [{"partition_dim": 1}]),
    "bands of 2": (2, [{"partition_dim": 2}]),
    "bands of 4": (4, [{"partition_dim": 2}]),
    "quarters": (4, [{"image_grid": "2x2"}]),
    "mixed": (3, [{"partition_dim": 1}, {"partition_dim": 2}, {"location": 1}, {"partition_dim": 3}, {}]),
}


def training(net, corpus, steps):
    shapes = {name: (net.rows, *sizes) for name, sizes in net.inputs.items()}
    graph = netweave.load(corpus / net.path, phase="TRAIN", input_shapes=shapes)
    draw = np.random.default_rng(0)
    batches = []
    for _ in range(2):
        batch = {}
        for value in graph.inputs:
            if value.name in net.inputs:
                batch[value.name] = torch.from_numpy(draw.normal(size=shapes[value.name]))
            else:
                batch[value.name] = torch.from_numpy(draw.integers(net.classes, size=net.rows).astype(float))
        batches.append(batch)
    return Training(graph, [batches[step % 2] for step in range(steps)], rate=net.rate)


def cuts_of(graph, workers, ways, rows):
    """Return a cut of each layer that can be cut so; the ways take turns."""
    cuts = []
    for number, layer in enumerate(graph.layers.values()):
        way = ways[number % len(ways)]
        tried = [*cuts, LayerCut(layer.name, **way)] if way else cuts
        try:
            plan = partition_plan(graph, tried, num_workers=workers, num_rows=rows)
        except (UnsupportedError, UsageError):
            continue
        cuts = tried if not plan.notes else cuts
    return cuts


def check(name, way, corpus, steps):
    net, (workers, ways) = NETS[name], WAYS[way]
    whole = training(net, corpus, steps)
    cuts = cuts_of(whole.graph, workers, ways, net.rows)
    assert len(cuts) >= 4
    require_equal(whole, cuts, workers)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["lenet", "cifar-bn"])
def test_small_nets_of_the_corpus_end_as_one_process(name, way, corpus):
    check(name, way, corpus, 4)


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("way", ["feature of 3", "bands of 2"])
@pytest.mark.parametrize(("name", "steps"), [("lenet", 20), ("cifar", 20), ("alexnet", 20), ("googlenet", 2)])
def test_large_nets_of_the_corpus_end_as_one_process(name, steps, way, corpus):
    check(name, way, corpus, steps)
