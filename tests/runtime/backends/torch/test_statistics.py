"""Stored statistics in training, by the formulas of the sources."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave.graph import Graph, GraphBuilder, Parameter, Statistics, set_statistics
from netweave.runtime.backends.torch import ParameterStore, TorchNet

RNG = np.random.default_rng(0)
MEAN, VARIANCE = (a.astype(np.float32).astype(float) for a in (RNG.normal(size=3), RNG.uniform(0.5, 2, 3)))
BATCHES = RNG.normal(2, 3, (4, 5, 3, 2, 2))
EPS = 1e-3


def net_of(rule: Statistics, *, momentum: float, factor: float = 0.0, phase: str = "train") -> Graph:
    builder = GraphBuilder("norm", format="onnx")
    x = builder.input("data", (1, 3, 2, 2))
    ones, zeros = (builder.constant(np.full(3, value)) for value in (1, 0))
    stored = [
        builder.parameter(Parameter(key, (3,), trainable=False), array.astype(np.float32))
        for key, array in (("mean", MEAN), ("variance", VARIANCE))
    ]
    if rule.count:
        array = np.array([factor], np.float32)
        builder.parameter(Parameter(rule.count, (1,), trainable=False), array)
    attributes = {"epsilon": EPS, "momentum": momentum}
    y = builder.add("BatchNormalization", [x, ones, zeros, *stored], attributes, outputs="y")
    set_statistics(y, rule)
    return builder.finish([y])


def trained(graph: Graph, store: ParameterStore | None = None) -> tuple[TorchNet, np.ndarray]:
    net = TorchNet(graph, store=store).to(torch.float64).train()
    for batch in BATCHES:
        y = net(data=torch.from_numpy(batch))["y"]
    return net, y.numpy()


def batch_statistics(batch: np.ndarray, *, unbiased: bool) -> tuple[np.ndarray, np.ndarray]:
    return batch.mean((0, 2, 3)), batch.var((0, 2, 3), ddof=int(unbiased))


@pytest.mark.parametrize("unbiased", [False, True])
def test_average_of_mxnet_and_pytorch(unbiased):
    """batch_norm.cc of MXNet (biased); torch.nn.BatchNorm2d (unbiased, with 1 - momentum)."""
    net, y = trained(net_of(Statistics(unbiased=unbiased), momentum=0.8))
    mean, variance = MEAN, VARIANCE
    for batch in BATCHES:
        new = batch_statistics(batch, unbiased=unbiased)
        mean, variance = 0.8 * mean + 0.2 * new[0], 0.8 * variance + 0.2 * new[1]
    np.testing.assert_allclose(net.params["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(net.params["variance"], variance, rtol=1e-9)
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0, atol=1e-12)


def test_unbiased_average_is_torchs_own():
    net, y = trained(net_of(Statistics(unbiased=True), momentum=0.8))
    own = torch.nn.BatchNorm2d(3, eps=EPS, momentum=0.2, affine=False, dtype=torch.float64)
    own.running_mean.copy_(torch.from_numpy(MEAN))
    own.running_var.copy_(torch.from_numpy(VARIANCE))
    for batch in BATCHES:
        expected = own(torch.from_numpy(batch))
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(net.params["variance"], own.running_var, rtol=1e-9)


@pytest.mark.parametrize("factor", [0.0, 7.5])
def test_sums_of_caffe(factor):
    """batch_norm_layer.cpp, Forward_cpu: three arrays, of which the net uses sum / factor."""
    rate = 0.9
    net, _ = trained(net_of(Statistics(unbiased=True, count="factor"), momentum=rate, factor=factor))
    sums = [MEAN * factor, VARIANCE * factor]
    for batch in BATCHES:
        factor = rate * factor + 1
        sums = [rate * s + new for s, new in zip(sums, batch_statistics(batch, unbiased=True), strict=True)]
    np.testing.assert_allclose(net.params["factor"], [factor], rtol=1e-9)
    np.testing.assert_allclose(net.params["mean"], sums[0] / factor, rtol=1e-7)
    np.testing.assert_allclose(net.params["variance"], sums[1] / factor, rtol=1e-7)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("shifted", [False, True])
def test_a_scale_behind_a_normalisation_is_one_kernel_with_it(mode, shifted):
    """Caffe's BatchNorm and Scale; a tap in between keeps them apart."""
    builder = GraphBuilder("caffe", format="caffe")
    x = builder.input("data", (1, 3, 2, 2))
    norm = builder.add_many(
        "BatchNormalization",
        [x, *(builder.constant(np.full(3, v)) for v in (1, 0, 0.5, 2))],
        {"training_mode": int(mode == "train")},
        outputs=["norm", "", ""] if mode == "train" else ["norm"],
    )[0]
    layout = [("reshape", (3, 1, 1))]
    for key, op_type in [("scale", "Mul"), ("shift", "Add")][: 1 + shifted]:
        stored = builder.parameter(Parameter(key, (3,)), MEAN.astype(np.float32), layout=layout)
        norm = builder.add(op_type, [norm, stored], outputs=key + "d")
    graph = builder.finish([norm])
    found = []
    for taps in ([], ["norm"]):
        net = TorchNet(graph, taps=taps).to(torch.float64)
        getattr(net, mode)()
        data = torch.tensor(BATCHES[0], requires_grad=True)
        y = net(data=data)[graph.outputs[0].name]
        y.square().sum().backward()
        called = [node.target for node in net.module.graph.nodes]
        assert (torch.mul in called) == bool(taps)
        found.append([y.detach(), data.grad, *net.grads.values()])
    assert len(found[0]) == 3 + shifted
    for one, apart in zip(*found, strict=True):
        assert torch.allclose(one, apart)


def test_fixed_statistics_are_used_in_training_and_stay():
    net, y = trained(net_of(Statistics(fixed=True), momentum=0.8))
    np.testing.assert_array_equal(net.params["mean"], MEAN)
    scale = np.sqrt(VARIANCE + EPS)[:, None, None]
    expected = (BATCHES[-1] - MEAN[:, None, None]) / scale
    np.testing.assert_allclose(y, expected, rtol=1e-9)


def test_a_test_net_with_the_same_store_sees_what_training_changed():
    store = ParameterStore()
    trained(net_of(Statistics(), momentum=0.5), store)
    test = TorchNet(net_of(Statistics(), momentum=0.5), store=store).to(torch.float64).eval()
    x = torch.from_numpy(BATCHES[0])
    mean, variance = (store[key].tensor.numpy()[:, None, None] for key in ("mean", "variance"))
    assert not np.allclose(mean.ravel(), MEAN)
    np.testing.assert_allclose(test(data=x)["y"], (BATCHES[0] - mean) / np.sqrt(variance + EPS), rtol=1e-9)


def test_test_mode_changes_nothing():
    net = TorchNet(net_of(Statistics(), momentum=0.5)).to(torch.float64).eval()
    net(data=torch.from_numpy(BATCHES[0]))
    np.testing.assert_array_equal(net.params["mean"], MEAN)
