"""Operators of the user's own: in symbols, in every runtime, in passes, comparisons and training."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("torch")

import torch

import netweave
import netweave.mxnet as mx
from netweave import symbol as sym
from netweave.api import to_inference
from netweave.api.custom_operators import operator
from netweave.errors import RunError, ShapeError, UsageError
from netweave.formats.mxnet.symbol import registry
from netweave.graph import operators
from netweave.runtime.backends.torch import TorchNet

CALLS: Counter[str] = Counter()

TABLES = (operators._OPERATORS, registry.READERS)
BEFORE = [set(table) for table in TABLES]
"""What is there without the operators of this file; other tests look at the whole tables."""


@operator(
    shapes=lambda x, *, power: x,
    gradient=lambda inputs, outputs, above, *, power: above * power * np.abs(inputs[0]) ** (power - 1),
)
def SignedPower(x, *, power=2.0):  # noqa: N802
    """Numbers to a power, with their signs."""
    return (np.sign(x) * np.abs(x) ** power).astype(x.dtype)


@operator(shapes=lambda x, y, *, power: x, arrays="torch")
def TensorPower(x, y, *, power=2.0):  # noqa: N802
    """The same on tensors, times a second input."""
    return torch.sign(x) * torch.abs(x) ** power * y


@operator(shapes=lambda x: [x, x[:1]], num_outputs=2, arrays="torch")
def ValueAndTotal(x):  # noqa: N802
    """Two outputs."""
    return x * 2, x.flatten(1).sum(1)


@operator(shapes=lambda x: x, gradient=lambda inputs, outputs, above: above, effects=["stateful"])
def CountedCopy(x):  # noqa: N802
    """A copy; says how often it was called."""
    CALLS["copy"] += 1
    return x.copy()


@operator(shapes=lambda x: x, effects=["random"])
def FreshNoise(x):  # noqa: N802
    """Other numbers at each call."""
    CALLS["noise"] += 1
    return np.random.default_rng().normal(size=x.shape).astype(np.float32)


def taken_out():
    """Take the operators of this file out of the tables."""
    pairs = zip(TABLES, BEFORE, strict=True)
    return [{name: table.pop(name) for name in set(table) - before} for table, before in pairs]


OWN = taken_out()


@pytest.fixture(autouse=True)
def own_operators():
    CALLS.clear()
    before = [
        dict(table) for table in TABLES
    ]  # other modules have registered theirs since the import of this one
    for table, own in zip(TABLES, OWN, strict=True):
        table.update(own)
    yield
    for table, rows in zip(TABLES, before, strict=True):
        table.clear()
        table.update(rows)


def rows(count=4, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 5)).astype(np.float32)


@pytest.mark.parametrize("backend", ["onnxruntime", "torch"])
def test_every_runtime_computes_it(backend):
    x = rows()
    net = SignedPower(sym.Variable("data") * 2, power=3.0, name="own") + 1
    (found,) = netweave.run(net.graph(data=(4, 5)), {"data": x}, backend=backend).values()
    np.testing.assert_allclose(found, (2 * x) ** 3 + 1, rtol=1e-4, atol=1e-5)
    two = sym.ValueAndTotal(sym.Variable("data")).graph(data=(4, 5))
    a, b = netweave.run(two, {"data": x}, backend=backend).values()
    np.testing.assert_allclose(a, 2 * x)
    np.testing.assert_allclose(b, x.sum(1), rtol=1e-5, atol=1e-6)


def test_it_is_an_operator_of_symbols():
    net = sym.SignedPower(sym.Variable("data"), power=3)
    assert net.list_outputs()[0].startswith("signedpower")
    assert net.infer_shape(data=(4, 5))[1] == [(4, 5)]
    assert sym.load_json(net.tojson()).infer_shape(data=(4, 5))[1] == [(4, 5)]
    two = ValueAndTotal(sym.Variable("data"), name="two")
    assert two.list_outputs() == ["two_output0", "two_output1"]
    assert two.infer_shape(data=(4, 5))[1] == [(4, 5), (4,)]
    np.testing.assert_array_equal(SignedPower(np.array([-2.0, 3.0])), [-4.0, 9.0])


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_gradients_are_those_of_differences(kind):
    """Central differences in float64."""
    data, weight = sym.Variable("data"), sym.Variable("other")
    own = SignedPower(data, power=3.0) * weight if kind == "numpy" else TensorPower(data, weight, power=3.0)
    net = TorchNet(own.graph(data=(4, 5), other=(4, 5))).to(torch.float64)
    inputs = [torch.from_numpy(rows(seed=seed).astype(np.float64)).requires_grad_() for seed in (0, 1)]
    assert torch.autograd.gradcheck(lambda x, y: next(iter(net(data=x, other=y).values())), inputs)


def test_a_counter_is_called_each_time_and_never_merged():
    """Two calls of the same input, alike in all but their names."""
    x = sym.Variable("data")
    graph = (CountedCopy(x, name="one") + CountedCopy(x, name="two")).graph(data=(4, 5))
    for backend in ("onnxruntime", "torch"):
        CALLS.clear()
        runner = netweave.api.reading.prepare(graph, taps=(), backend=backend)
        for times in (1, 2, 3):
            (found,) = runner.run({"data": rows()}).values()
            assert CALLS["copy"] == 2 * times
            np.testing.assert_array_equal(found, 2 * rows())
    CALLS.clear()
    netweave.run(to_inference(graph, folded=True), {"data": rows()})
    assert CALLS["copy"] == 2


def test_what_draws_is_not_computed_ahead():
    """Its input is a constant, so that folding would otherwise take it."""
    graph = (FreshNoise(sym.zeros((1, 5)), name="noise") + sym.Variable("data")).graph(data=(1, 5))
    folded = to_inference(graph, folded=True)
    assert not CALLS
    runner = netweave.api.reading.prepare(folded, taps=(), backend="torch")
    data = {"data": np.zeros((1, 5), np.float32)}
    (first,), (second,) = (runner.run(data).values() for _ in range(2))
    assert CALLS["noise"] == 2
    assert (first != second).all()


def test_two_nets_with_it_are_compared():
    def net(power):
        x = sym.FullyConnected(sym.Variable("data"), num_hidden=6, name="fc1")
        return sym.FullyConnected(sym.SignedPower(x, power=power, name="own"), num_hidden=3, name="fc2")

    generator = np.random.default_rng(0)
    shapes = {"fc1_weight": (6, 5), "fc1_bias": (6,), "fc2_weight": (3, 6), "fc2_bias": (3,)}
    arrays = {key: generator.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    a, b, c = (net(power).graph(arrays=arrays, data=(2, 5)) for power in (2.0, 2.0, 3.0))
    assert "identical" in str(netweave.compare(a, b))
    assert "different at own" in str(netweave.compare(a, c))


def test_it_trains_and_is_called_once_for_each_batch():
    net = CountedCopy(sym.Variable("data"), name="count")
    net = SignedPower(sym.FullyConnected(net, num_hidden=8, name="fc1"), power=1.5)
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc2"), name="softmax")
    data = rows(96)
    accuracy = mx.metric.Accuracy()
    mx.random.seed(0)
    mx.mod.Module(net).fit(
        mx.io.NDArrayIter(data, data[:, :3].argmax(1), 8),
        eval_metric=accuracy,
        num_epoch=20,
        optimizer_params={"learning_rate": 0.3},
        initializer=mx.init.Xavier(),
    )
    assert CALLS["copy"] == 20 * 12
    assert accuracy.get()[1] > 0.85


def test_a_second_definition_takes_the_place_of_the_first():
    for factor in (2.0, 3.0):

        @operator("Again", shapes=lambda x: (*x, int(factor)))
        def again(x):
            return np.stack([x] * int(factor), axis=-1)  # noqa: B023

        graph = again(sym.Variable("data")).graph(data=(4, 5))
        assert graph.outputs[0].shape[2] == factor
        assert next(iter(netweave.run(graph, {"data": rows()}).values())).shape == (4, 5, factor)


def test_without_a_gradient_there_is_none():
    net = sym.MakeLoss(FreshNoise(sym.FullyConnected(sym.Variable("data"), num_hidden=3, name="fc")))
    with pytest.raises(RunError, match="operator 'FreshNoise' has no gradient; give gradient="):
        mx.mod.Module(net, label_names=()).fit(mx.io.NDArrayIter(rows(8), None, 8), num_epoch=1)


def test_shapes_that_do_not_fit_are_named():
    def rule(x):
        if x[1] != 3:
            raise ValueError(f"has {x[1]} columns, expected 3")
        return x

    @operator("ThreeColumns", shapes=rule)
    def three(x):
        return x

    with pytest.raises(ShapeError, match=r"test_custom_operators.py:\d+: layer .three. .*has 5 columns"):
        three(sym.Variable("data"), name="three").graph(data=(4, 5))

    @operator("WrongGradient", shapes=lambda x: x, gradient=lambda inputs, outputs, above: above[:1])
    def wrong(x):
        return x

    net = TorchNet(wrong(sym.Variable("data")).graph(data=(4, 5)))
    (found,) = net(data=torch.ones(4, 5, requires_grad=True)).values()
    with pytest.raises(RunError, match=r"'WrongGradient': its gradient returns \[\(1, 5\)\], expected"):
        found.sum().backward()


WRONG = {
    "taken": ({"name": "Convolution"}, lambda x: x, "cannot be called 'Convolution'"),
    "built in": ({"name": "SoftmaxOutput"}, lambda x: x, "cannot be called 'SoftmaxOutput'"),
    "no name": ({"name": "a b"}, lambda x: x, "cannot be called 'a b'"),
    "arrays": ({"arrays": "jax"}, lambda x: x, "arrays is 'jax', expected numpy or torch"),
    "effect": (
        {"name": "E1", "effects": ["magic"]},
        lambda x: x,
        "unknown effect 'magic'; expected one of random",
    ),
    "state": ({"name": "E2", "state": dict}, lambda x: x, "has no keyword-only parameter 'state'"),
    "default": ({"name": "E3"}, lambda x, *, a=None: x, "attribute 'a' needs a default .*found None"),
    "kind": ({"name": "E4"}, lambda x, y=3: x, "'y' is neither an input"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case):
    settings, function, message = WRONG[case]
    with pytest.raises(UsageError, match=message):
        operator(**{"shapes": lambda x: x, **settings})(function)


@pytest.mark.parametrize("backend", ["onnxruntime", "torch"])
def test_a_source_has_no_inputs_and_fetches_once_for_each_run(backend):
    """Two sources alike are never merged, none is computed ahead, and none is asked twice."""

    @operator("Fetched", shapes=lambda: (4, 3))
    def fetched():
        CALLS["fetched"] += 1
        return np.full((4, 3), CALLS["fetched"], np.float32)

    graph = (fetched(name="one") + fetched(name="two") + sym.Variable("data")).graph(data=(4, 3))
    graph = to_inference(graph, folded=True)
    assert not CALLS
    runner = netweave.api.reading.prepare(graph, taps=(), backend=backend)
    for times in (1, 2, 3):
        (found,) = runner.run({"data": np.zeros((4, 3), np.float32)}).values()
        assert CALLS["fetched"] == 2 * times
        assert (found == 4 * times - 1).all()


def test_a_source_trains():
    @operator("Shifts", shapes=lambda: (5,))
    def shifts():
        CALLS["shifts"] += 1
        return np.full(5, 0.1, np.float32)

    net = sym.broadcast_add(sym.Variable("data"), shifts(name="shifts"))
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3, name="fc"), name="softmax")
    data = rows(64)
    mx.mod.Module(net).fit(mx.io.NDArrayIter(data, data[:, :3].argmax(1), 16), num_epoch=3)
    assert CALLS["shifts"] == 3 * 4


def test_a_state_is_each_nodes_own_and_stays_in_test_mode():
    @operator("Counter", shapes=lambda x: x, arrays="torch", state=lambda: {"n": torch.zeros(1)})
    def counter(x, *, state):
        state["n"] += 1
        return x + state["n"]

    x = sym.Variable("data")
    net = TorchNet((counter(x, name="one") + counter(x, name="two")).graph(data=(1, 1)))
    zero = torch.zeros(1, 1)
    net.train()
    assert [float(next(iter(net(data=zero).values()))) for _ in range(3)] == [2, 4, 6]
    net.eval()
    assert [float(next(iter(net(data=zero).values()))) for _ in range(2)] == [8, 8]
