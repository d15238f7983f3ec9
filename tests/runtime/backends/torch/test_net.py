"""The net handle: arrays by the source's names, modes, shared stores and errors."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

import onnx_ir as ir
import torch

from netweave.errors import RunError
from netweave.graph import BATCH, Graph, GraphBuilder, Layer, Parameter, scale_gradients
from netweave.graph.parameters import apply_layout
from netweave.runtime.backends import prepare
from netweave.runtime.backends.torch import ParameterStore, TorchNet
from netweave.runtime.backends.torch.elementwise import sum_

RNG = np.random.default_rng(0)
HWIO = RNG.standard_normal((3, 3, 2, 4), dtype=np.float32)
DENSE = RNG.standard_normal((3, 5), dtype=np.float32)


def small_net() -> Graph:
    """A convolution stored as HWIO, and a dense layer stored as (in, out) used twice, once as it is."""
    builder = GraphBuilder("small", format="onnx")
    x = builder.input("data", (1, 2, 8, 8))
    with builder.layer(Layer("conv", "conv", "Conv")):
        w = builder.parameter(Parameter("conv/w", HWIO.shape), HWIO, layout=[("transpose", (3, 2, 0, 1))])
        y = builder.add("Conv", [x, w], {"pads": [1] * 4})
    with builder.layer(Layer("head", "head", "Dense")):
        pooled = builder.add("GlobalAveragePool", [y])
        rows = builder.add("Reshape", [pooled, builder.constant([0, 4], dtype=np.int64)])
        first = builder.add("Slice", [rows, *(builder.constant([v], dtype=np.int64) for v in (0, 3, 1))])
        dense = Parameter("dense", DENSE.shape)
        turned = builder.parameter(dense, DENSE, layout=[("transpose", (1, 0))], name="dense_t")
        hidden = builder.add("Gemm", [first, turned], {"transB": 1}, outputs="hidden")
        back = builder.parameter(dense, DENSE, name="dense_plain")
        out = builder.add("Gemm", [hidden, back], {"transB": 1}, outputs="out")
    return builder.finish([out])


def images(batch: int = 2) -> np.ndarray:
    return RNG.standard_normal((batch, 2, 8, 8), dtype=np.float32)


def test_parameters_have_the_sources_names_and_layouts():
    net = TorchNet(small_net())
    assert list(net.params) == ["conv/w", "dense"]
    np.testing.assert_array_equal(net.params["conv/w"].detach().numpy(), HWIO)
    np.testing.assert_array_equal(net.params["dense"].detach().numpy(), DENSE)


@pytest.mark.parametrize("batch", [1, 3])
def test_runs_as_onnx_runtime_does(batch):
    x = images(batch)
    expected = prepare(small_net(), taps=["hidden"]).run({"data": x})
    found = prepare(small_net(), taps=["hidden"], backend="torch").run({"data": x})
    assert list(found) == list(expected)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-6)


def test_writing_to_a_parameter_changes_the_net():
    net, x = TorchNet(small_net()), images()
    before = net.run({"data": x})["out"]
    with torch.no_grad():
        net.params["conv/w"] *= 2
    np.testing.assert_allclose(net.run({"data": x})["out"], 2 * before, rtol=1e-5)
    net.params["conv/w"] = torch.from_numpy(HWIO)
    np.testing.assert_allclose(net.run({"data": x})["out"], before, rtol=1e-6)


def test_gradient_of_a_shared_array_is_the_sum_over_its_uses():
    net = TorchNet(small_net()).to(torch.float64)
    x = torch.from_numpy(images()).to(torch.float64)
    assert list(net.grads) == []
    net(data=x)["out"].square().sum().backward()
    conv, dense = (torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (HWIO, DENSE))
    hidden = torch.nn.functional.conv2d(x, conv.permute(3, 2, 0, 1), padding=1).mean((2, 3))[:, :3]
    ((hidden @ dense) @ dense.T).square().sum().backward()
    assert torch.allclose(net.grads["dense"], dense.grad)
    assert torch.allclose(net.grads["conv/w"], conv.grad)


def test_one_step_of_descent_by_the_handle():
    net, x = TorchNet(small_net()), torch.from_numpy(images())
    losses = []
    for _ in range(3):
        net.zero_grad()
        loss = net(data=x)["out"].square().mean()
        loss.backward()
        losses.append(loss.item())
        with torch.no_grad():
            for key in net.params:
                net.params[key] -= 0.01 * net.grads[key]
    assert losses[0] > losses[1] > losses[2]


def test_nets_with_one_store_share_their_arrays():
    store = ParameterStore()
    train, test = TorchNet(small_net(), store=store), TorchNet(small_net(), store=store)
    with torch.no_grad():
        train.params["dense"].zero_()
    assert not test.run({"data": images()})["out"].any()


def test_layout_that_is_no_view_is_kept_in_the_sources_layout():
    stored = RNG.standard_normal((6, 4), dtype=np.float32)
    layout = [("reshape", (2, 3, 4)), ("transpose", (1, 0, 2)), ("reshape", (6, 4))]
    builder = GraphBuilder("flatten order", format="onnx")
    x = builder.input("data", (1, 6))
    w = builder.parameter(Parameter("w", stored.shape), stored, layout=layout)
    net = TorchNet(builder.finish([builder.add("MatMul", [x, w], outputs="y")]))
    eye = np.eye(6, dtype=np.float32)
    np.testing.assert_array_equal(net.run({"data": eye})["y"], apply_layout(stored, layout))
    with torch.no_grad():
        net.params["w"][0].zero_()
    np.testing.assert_array_equal(net.params["w"][1:].detach().numpy(), stored[1:])
    assert not net.run({"data": eye})["y"][0].any()


def test_initializers_cut_from_one_stored_array_share_its_gradient():
    """MXNet packs the weights of a recurrent layer so; gates change their order on the way."""
    stored = RNG.standard_normal(12, dtype=np.float32)
    layouts = [
        (("ranges", (3, 6, 0, 3)), ("reshape", (2, 3))),
        (("ranges", (6, 12)), ("reshape", (2, 3)), ("transpose", (1, 0))),
    ]
    builder = GraphBuilder("packed", format="onnx")
    x = builder.input("data", (1, 3))
    first, second = (
        builder.parameter(Parameter("packed", stored.shape), stored, layout=layout) for layout in layouts
    )
    y = builder.add("MatMul", [builder.add("Gemm", [x, first], {"transB": 1}), builder.constant(np.eye(2))])
    graph = builder.finish([builder.add("Add", [y, builder.add("MatMul", [x, second])], outputs="y")])
    net, data = TorchNet(graph), torch.from_numpy(RNG.standard_normal((4, 3), dtype=np.float32))
    np.testing.assert_array_equal(net.params["packed"].detach().numpy(), stored)
    packed = torch.tensor(stored, requires_grad=True)
    gates = packed.reshape(2, 2, 3)[0][[1, 0]]
    expected = data @ gates.T + data @ packed[6:].reshape(2, 3).T
    expected.square().sum().backward()
    found = net(data=data)["y"]
    found.square().sum().backward()
    assert torch.allclose(found, expected)
    assert torch.allclose(net.grads["packed"], packed.grad)


@pytest.mark.parametrize("factor", [0.0, 0.25])
def test_a_factor_on_a_gradient_leaves_the_value_alone(factor):
    builder = GraphBuilder("block", format="onnx")
    x = builder.input("data", (1, 3))
    y = builder.add("Mul", [x, x])
    blocked = builder.add("Identity", [y])
    scale_gradients(blocked, {0: factor})
    net = TorchNet(builder.finish([builder.add("Add", [blocked, x], outputs="y")]))
    data = torch.tensor([[1.0, 2, 3]], requires_grad=True)
    out = net(data=data)["y"]
    out.sum().backward()
    assert out.tolist() == [[2, 6, 12]]
    assert data.grad.tolist() == [[1 + factor * 2 * v for v in (1, 2, 3)]]


def recurrent_net() -> Graph:
    builder = GraphBuilder("lstm", format="caffe")
    x = builder.input("data", (None, 2, 12), batch=False)
    cont = builder.input("cont", (None, 2), batch=False)
    w = builder.constant(np.random.default_rng(1).standard_normal((12, 3)))
    names = ["y", "h", "c"]
    return builder.finish(builder.add_many("CaffeLSTM", [x, cont, w], domain="netweave", outputs=names))


def test_a_recurrent_net_in_training_goes_on_where_the_last_call_ended():
    """recurrent_layer.cpp: the states of the last step are those before the first of the next call."""
    data = torch.from_numpy(RNG.standard_normal((6, 2, 12), dtype=np.float32))
    cont = torch.tensor([[0.0, 0], [1, 1], [1, 1], [1, 0], [1, 1], [1, 1]])
    whole = TorchNet(recurrent_net()).train()(data=data, cont=cont)["y"]
    net = TorchNet(recurrent_net()).train()
    halves = [
        net(data=part, cont=goes_on)["y"] for part, goes_on in zip(data.split(3), cont.split(3), strict=True)
    ]
    assert torch.allclose(torch.cat(halves), whole)
    again = [net.eval()(data=data[3:], cont=cont[3:])["y"] for _ in range(2)]
    assert torch.equal(*again), "in test mode a call keeps nothing"
    assert not torch.allclose(again[0][:, 0], whole[3:, 0])


@pytest.mark.parametrize("tap", [False, True])
def test_an_activation_overwrites_what_nothing_else_needs(tap):
    builder = GraphBuilder("relu", format="onnx")
    x = builder.input("data", (1, 3))
    total = builder.add("Add", [x, x], outputs="sum")
    once = builder.add("Relu", [total])
    again = builder.add("Sub", [once, x], outputs="difference")
    graph = builder.finish([builder.add("Mul", [builder.add("Relu", [again]), again], outputs="y")])
    net = TorchNet(graph, taps=["sum"] if tap else [])
    called = [node.target for node in net.module.graph.nodes]
    assert called.count(torch.relu_) == (not tap), "the difference has two readers"
    data = torch.tensor([[-1.0, 2, 3]], requires_grad=True)
    out = net(data=data)
    out["y"].sum().backward()
    assert out["y"].tolist() == [[1, 4, 9]] if not tap else out["sum"].tolist() == [[-2, 4, 6]]
    assert data.grad.tolist() == [[-2, 4, 6]]


def summed(op_type, *, factor=None, shape=(4,)):
    """Return a graph of an input that is added to a product of it and then rectified."""
    builder = GraphBuilder("residual", format="onnx")
    x = builder.input("data", (2, 4))
    other = builder.add("Neg", [x]) if shape == (4,) else builder.constant(np.ones((3, 2, 4)))
    doubled = builder.add("Mul", [x, builder.constant(np.full(shape[-1:], 2))], outputs="doubled")
    total = builder.add(op_type, [other, doubled], outputs="total")
    if factor is not None:
        scale_gradients(total, {1: factor})
    return builder.finish([builder.add("Relu", [total], outputs="y")])


@pytest.mark.parametrize("op_type", ["Add", "Sum"])
@pytest.mark.parametrize("shape", [(4,), (3, 2, 4)])
def test_a_sum_overwrites_whichever_value_nothing_else_needs(op_type, shape):
    graph, found = summed(op_type, shape=shape), []
    for taps in ([], ["doubled", "total"]):
        net = TorchNet(graph, taps=taps).to(torch.float64).train()
        called = [node.target for node in net.module.graph.nodes]
        assert (torch.relu_ in called) == (not taps)
        assert (sum_ in called) == (not taps and shape == (4,)), "a larger output fits into no input"
        data = torch.tensor([[-1.0, 2, 3, 0], [5, -6, 7, 8]], dtype=torch.float64, requires_grad=True)
        y = net(data=data)["y"]
        y.square().sum().backward()
        found.append((y.detach(), data.grad))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_a_sum_that_scales_its_gradient_overwrites_nothing():
    net = TorchNet(summed("Add", factor=0.5)).to(torch.float64).train()
    data = torch.tensor([[1.0, 2, 3, 4]], dtype=torch.float64, requires_grad=True)
    net(data=data)["y"].sum().backward()
    assert data.grad.tolist() == [[0.0] * 4]  # -1 from the one branch, half of 2 from the other


@pytest.mark.parametrize("channels_last", [False, True])
def test_the_memory_format_changes_no_result(channels_last):
    x = images()
    expected = prepare(small_net(), taps=["conv/Conv@1"]).run({"data": x})
    net = TorchNet(small_net(), taps=["conv/Conv@1"], store=ParameterStore(channels_last=channels_last))
    found = net(data=torch.from_numpy(x))
    last = found["conv/Conv@1"].is_contiguous(memory_format=torch.channels_last)
    assert last == channels_last
    for name, array in expected.items():
        np.testing.assert_allclose(found[name].detach().numpy(), array, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(net.params["conv/w"].detach().numpy(), HWIO)


def test_statistics_have_no_gradient_and_follow_the_net_to_another_type():
    builder = GraphBuilder("norm", format="onnx")
    x = builder.input("data", (1, 2, 4, 4))
    one = [builder.parameter(Parameter(k, (2,), trainable=k in "gb"), np.ones(2, np.float32)) for k in "gbmv"]
    net = TorchNet(builder.finish([builder.add("BatchNormalization", [x, *one], outputs="y")]))
    net.to(torch.float64)
    net(data=torch.zeros(1, 2, 4, 4, dtype=torch.float64))["y"].sum().backward()
    assert list(net.params) == list("gbmv")
    assert list(net.grads) == list("gb")
    assert {tensor.dtype for tensor in net.params.values()} == {torch.float64}


def test_dropout_draws_in_training_mode_only():
    builder = GraphBuilder("drop", format="onnx")
    x = builder.input("data", (1, 4096))
    y = builder.add("Dropout", [x, builder.constant(0.25)], outputs="y")
    net = TorchNet(builder.finish([y])).eval()
    ones = torch.ones(8, 4096)
    assert torch.equal(net(data=ones)["y"], ones)
    torch.manual_seed(3)
    dropped = net.train()(data=ones)["y"]
    assert sorted(dropped.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    # 32768 draws: five standard deviations of the mean are 0.012
    assert (dropped == 0).float().mean().item() == pytest.approx(0.25, abs=0.012)
    torch.manual_seed(3)
    assert torch.equal(net(data=ones)["y"], dropped)


def test_operators_without_lowering_are_all_named():
    builder = GraphBuilder("strings", format="onnx", files=["texts.onnx"])
    graph = builder.finish([builder.input("data", (1, 4))])
    x = graph.inputs[0]
    for domain, op_type in [("", "TfIdfVectorizer"), ("com.microsoft", "Attention"), ("", "TfIdfVectorizer")]:
        graph.model.graph.append(ir.Node(domain, op_type, [x]))
    expected = (
        r"texts.onnx: no torch lowering for 2 operators: TfIdfVectorizer-9 \(2 nodes\), "
        r"com.microsoft::Attention-1 \(1 node\); see docs/operators.md"
    )
    with pytest.raises(RunError, match=expected):
        TorchNet(graph)


def test_a_layer_that_fails_is_named():
    builder = GraphBuilder("bad", format="onnx", files=["bad.prototxt"])
    x = builder.input("data", (1, None))
    with builder.layer(Layer("sum", "sum", "Eltwise")):
        y = builder.add("Add", [x, builder.constant(np.zeros((1, 3)))], outputs="y")
    with pytest.raises(RunError, match=r"bad.prototxt: layer 'sum' \(Eltwise\): .*size"):
        TorchNet(builder.finish([y])).run({"data": np.zeros((1, 4), np.float32)})


def test_inputs_are_asked_for_by_name():
    net = TorchNet(small_net())
    with pytest.raises(RunError, match=r"inputs \['image'\] were given, the net has \['data'\]"):
        net(image=torch.zeros(1))


def test_batch_axis_stays_symbolic():
    assert str(small_net().outputs[0].shape[0]) == BATCH
