"""Times of nodes: each node's own gradient is computed, and together they are that of the net."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

from netweave import api
from netweave.errors import UsageError
from netweave.files import Source
from netweave.formats.caffe.reader import read
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.timing import Timed, measure
from netweave.training.optim.first_values import first_values

NET = """name: "branches"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 8 dim: 8 } } }
layer { name: "label" type: "Input" top: "label" input_param { shape { dim: 2 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv" top: "norm" }
layer { name: "scale" type: "Scale" bottom: "norm" top: "norm" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "norm" top: "norm" }
layer { name: "pool" type: "Pooling" bottom: "norm" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "half" type: "Slice" bottom: "pool" top: "a" top: "b" slice_param { axis: 1 } }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
layer { name: "both" type: "Concat" bottom: "sum" bottom: "a" top: "both" }
layer { name: "ip" type: "InnerProduct" bottom: "both" top: "ip"
  inner_product_param { num_output: 5 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
"""


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return read(Source(path, phase="TRAIN"))


def test_gradients_node_by_node_are_those_of_the_net(graph):
    net = TorchNet(graph).train().to(torch.float64)
    for key, parameter in graph.parameters.items():
        net.params[key] = torch.from_numpy(np.array(first_values(parameter, source="caffe", seed=1)))
    data = torch.randn(2, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    label = torch.tensor([1.0, 4.0], dtype=torch.float64)
    net(data=data, label=label)["loss"].backward()
    whole = {key: value.clone() for key, value in net.grads.items()}
    net.zero_grad()
    timed = Timed(net, torch.device("cpu"))
    timed.pass_through([net.store.placed(data), label], backward=True)
    assert set(whole) == set(net.grads)
    assert max(float(grad.abs().max()) for grad in whole.values()) > 1e-3
    for key, grad in net.grads.items():
        torch.testing.assert_close(grad, whole[key], rtol=1e-12, atol=1e-14)
    assert all(seconds.forward > 0 for seconds in timed.seconds.values())


def test_every_layer_is_there_and_those_that_one_kernel_computes_are_one(graph):
    found = api.time_layers(graph, iterations=2)
    names = [layer.name for layer in found.layers]
    assert names == ["conv", "norm", "pool", "half", "sum", "both", "ip", "loss", "accuracy"]
    backward = {layer.name: layer.backward_s for layer in found.layers}
    assert backward.pop("accuracy") == 0
    assert min(backward.values()) > 0
    assert (found.inputs["data"], found.iterations) == ((2, 3, 8, 8), 2)
    assert min(found.forward_s, found.backward_s) > 0
    forward = api.time_layers(graph, iterations=1, backward=False)
    assert forward.backward_s == sum(layer.backward_s for layer in forward.layers) == 0


def test_a_device_that_is_not_there(graph):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    arrays = {"data": np.zeros((2, 3, 8, 8), np.float32), "label": np.zeros(2, np.float32)}
    with pytest.raises(UsageError, match=r"no device .cuda:0.: torch.* finds 0 GPUs here; leave out --gpu"):
        measure(graph, arrays, iterations=1, backward=True, device="cuda:0")
