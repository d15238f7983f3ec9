"""The net handle in the user's own loop: declarative and imperative, mixed."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

import netweave.mxnet as mx
from netweave import symbol as sym
from netweave.errors import UsageError
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.engine import ThreadedEngine, Variable


def classifier():
    net = sym.Convolution(sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv1")
    net = sym.Activation(net, act_type="tanh", name="tanh1")
    net = sym.Pooling(net, kernel=(2, 2), stride=(2, 2), pool_type="max", name="pool1")
    net = sym.Activation(sym.FullyConnected(net, num_hidden=7, name="fc1"), act_type="tanh", name="tanh2")
    return sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")


def batches(count, size=8):
    generator = np.random.default_rng(0)
    data = generator.normal(size=(count * size, 2, 8, 8)).astype(np.float32)
    labels = generator.integers(3, size=count * size).astype(np.float32)
    return data, labels


def test_a_loop_by_hand_is_fit():
    """Plain descent on the handle's arrays, to the bit what MXNet's ``fit`` does."""
    data, labels = batches(6)
    fitted = mx.mod.Module(classifier())
    records = mx.io.NDArrayIter(data, labels, 8)
    fitted.bind(records.provide_data, records.provide_label)
    fitted.init_params()
    arrays = {name: array.asnumpy() for name, array in fitted.get_params()[0].items()}
    net = TorchNet(classifier().graph(arrays=arrays, data=(8, 2, 8, 8), softmax_label=(8,))).train()
    rate = 0.25  # a power of two, so that the order of the factors does not matter
    fitted.fit(records, num_epoch=1, optimizer_params={"learning_rate": rate})
    for x, y in zip(np.split(data, 6), np.split(labels, 6), strict=True):
        net.zero_grad()
        outputs = net(data=torch.from_numpy(x), softmax_label=torch.from_numpy(y))
        outputs["softmax_output"].sum().backward()
        with torch.no_grad():
            for key in net.grads:
                net.params[key] -= rate * (net.grads[key] / 8)
    for key, array in fitted.get_params()[0].items():
        torch.testing.assert_close(net.params[key].detach(), array.tensor, rtol=0, atol=1e-7)


def test_what_is_done_in_place_is_not_copied():
    """Each of torch's writes to a tensor raises its version by one."""
    net = TorchNet(classifier().graph(data=(8, 2, 8, 8)))
    tensor = net.store["fc1_weight"].tensor
    before, place = tensor._version, tensor.data_ptr()
    with torch.no_grad():
        net.params["fc1_weight"] -= 1.0
    assert tensor._version == before + 1
    net.params["fc1_weight"] = torch.ones(7, 36)
    assert tensor._version == before + 2
    assert tensor.data_ptr() == place
    assert (tensor == 1).all()


@pytest.mark.parametrize("where", ["tanh1_output", "pool1_output", "fc1_output", "tanh2_output"])
def test_gradients_of_a_net_cut_in_two_are_the_whole_nets(where):
    """The gradient of the cut value is handed from the back to the front, by hand."""
    data, labels = (torch.from_numpy(array) for array in batches(1))
    net = classifier()
    front, back = net.cut(where)
    shapes = {"data": (8, 2, 8, 8), "softmax_label": (8,)}
    whole = TorchNet(net.graph(**shapes)).train()
    whole(data=data, softmax_label=labels)["softmax_output"].sum().backward()
    a = TorchNet(front.graph(data=(8, 2, 8, 8)), store=None).train()
    size = front.infer_shape(data=(8, 2, 8, 8))[1][0]
    b = TorchNet(back.graph(**{where: size, "softmax_label": (8,)})).train()
    for part in (a, b):
        for key in part.params:
            part.params[key] = whole.params[key].detach()
    made = a(data=data)[where]
    given = made.detach().requires_grad_()
    b(**{where: given, "softmax_label": labels})["softmax_output"].sum().backward()
    made.backward(given.grad)
    assert {*a.params, *b.params} == {*whole.params}
    for part in (a, b):
        for key, gradient in part.grads.items():
            torch.testing.assert_close(gradient, whole.grads[key], rtol=0, atol=0)


def test_a_cut_that_nothing_reads_is_refused():
    net = classifier()
    with pytest.raises(UsageError, match="no output is named 'tanh9_output'"):
        net.cut("tanh9_output")
    with pytest.raises(UsageError, match="the cut at 'tanh1_output' is not needed"):
        net.cut("tanh1_output", "tanh2_output")


def test_access_waits_for_what_the_engine_still_has_to_do():
    net = TorchNet(classifier().graph(data=(8, 2, 8, 8)))
    arrays, go_on = Variable("arrays"), threading.Event()

    def change():
        go_on.wait(10)
        net.store["fc2_bias"].tensor.data.fill_(7.0)

    with ThreadedEngine() as engine:
        net.guard(lambda: engine.wait_for(arrays))
        engine.push(change, writes=[arrays])
        threading.Timer(0.05, go_on.set).start()
        assert (net.params["fc2_bias"] == 7.0).all()
        net.guard(None)
