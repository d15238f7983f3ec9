"""Gluon's zoo, SVRG, sparse kinds and a step of a ResNet against MXNet (``tests/oracles/mxnet_more.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import UsageError
from tests.oracles import mxnet_more

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mxnet_more.npz")
SMALL = {"resnet18_v1", "resnet18_v2", "mobilenet0.25", "mobilenetv2_0.5"}


def expected(program):
    return {key.partition("/")[2]: GOLDEN[key] for key in GOLDEN.files if key.startswith(f"{program}/")}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in SMALL else [pytest.mark.slow]) for n in mxnet_more.NETWORKS]
)
def test_a_network_of_the_zoo_is_that_of_mxnet(name):
    """Names and sizes of all parameters, and the output for values that follow from their names."""
    found, wanted = mxnet_more.zoo(mx, name), expected(f"zoo {name}")
    assert list(found["parameters"]) == list(wanted["parameters"])
    scale = np.abs(wanted["output"]).max()
    np.testing.assert_allclose(found["output"], wanted["output"], rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize(
    "program",
    [mxnet_more.svrg, mxnet_more.masks, mxnet_more.sparse, mxnet_more.custom_states],
)
def test_a_program_finds_what_it_found_under_mxnet(program):
    found, wanted = program(mx), expected(program.__name__)
    assert found.keys() == wanted.keys()
    for key, array in wanted.items():
        if array.dtype.kind == "U":
            assert list(found[key]) == list(array)
        else:
            np.testing.assert_allclose(found[key], array, rtol=2e-5, atol=2e-6, err_msg=key)


def test_a_step_of_a_resnet_is_that_of_float64():
    """To 1e-4 of how far each array moves, with default batch normalisation; the reference has 64 bits."""
    found, wanted = mxnet_more.residual_step(mx), expected("residual 64")
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        moved = np.abs(array).max()
        if name.endswith("gamma"):  # MXNet's gamma is fixed: it has no gradient
            assert not np.any(found[name]), name
        else:
            np.testing.assert_allclose(found[name], array, rtol=0, atol=1e-4 * moved + 1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("make", "mean", "deviation"),
    [
        (lambda: mx.sym.random_normal(loc=2, scale=3, shape=(4000,)), 2.0, 3.0),
        (lambda: mx.sym.random.uniform(-1, 3, shape=(4000,)), 1.0, 4 / 12**0.5),
        (lambda: mx.sym.random_exponential(lam=4, shape=(4000,)), 0.25, 0.25),
        (lambda: mx.sym.random_randint(low=0, high=10, shape=(4000,)), 4.5, 8.25**0.5),
    ],
)
def test_a_symbol_draws_anew_each_time(make, mean, deviation):
    """Mean and deviation to five standard errors."""
    mx.random.seed(3)
    executor = make().bind(mx.cpu(), {})
    first, second = (executor.forward()[0].asnumpy() for _ in range(2))
    assert (first != second).mean() > 0.8
    assert abs(first.mean() - mean) < 5 * deviation / 4000**0.5
    assert abs(first.std() - deviation) < 0.1 * deviation


def test_classes_are_drawn_by_their_probabilities():
    mx.random.seed(3)
    net = mx.sym.sample_multinomial(mx.sym.Variable("p"), shape=(2000,))
    drawn = net.eval(ctx=mx.cpu(), p=mx.nd.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]]))[0].asnumpy()
    for row, shares in zip(drawn, [(0.1, 0.2, 0.7), (0.5, 0.5, 0.0)], strict=True):
        np.testing.assert_allclose(np.bincount(row, minlength=3) / 2000, shares, atol=0.05)


def test_outputs_may_be_changed_in_place():
    """The gradient of relu is that of the output as it was."""
    executor = mx.sym.Activation(mx.sym.Variable("x"), act_type="relu").simple_bind(mx.cpu(), x=(4,))
    executor.arg_dict["x"][:] = np.array([-1.0, 2.0, -3.0, 4.0])
    (output,) = executor.forward(is_train=True)
    output += 5
    executor.backward(mx.nd.ones((4,)))
    np.testing.assert_array_equal(executor.grad_dict["x"].asnumpy(), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mx.gluon.model_zoo.vision.get_model("resnet19_v1"),
            "no network 'resnet19_v1'",
        ),
        (lambda: mx.gluon.model_zoo.vision.resnet18_v1(pretrained=True), "nothing is downloaded here"),
        (lambda: mx.nd.sparse.csr_matrix(([1.0], ([5], [0])), shape=(2, 2)), r"csr_matrix of shape \(2, 2\)"),
        (lambda: mx.nd.ones((2,)).tostype("coo"), "cannot be stored as 'coo'; expected one of default"),
        (lambda: mx.contrib.amp.init(), "cast with mx.sym.Cast"),
    ],
)
def test_a_wrong_call(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_a_custom_operator_says_the_sizes_of_its_states():
    @mx.operator.register("without_sizes")
    class Prop(mx.operator.CustomOpProp):
        def list_auxiliary_states(self):
            return ["kept"]

    net = mx.sym.Custom(mx.sym.Variable("data"), op_type="without_sizes", name="own")
    assert (net.list_arguments(), net.list_auxiliary_states()) == (["data"], ["own_kept"])
    with pytest.raises(UsageError, match=r"'own'.*the sizes of 0 auxiliary states, expected 1: kept"):
        net.simple_bind(mx.cpu(), data=(2, 3))


def test_the_outputs_of_an_executor_are_there_from_the_start():
    """Scripts take them once, before any pass, and look at them after each (deep-embedded-clustering)."""
    data = mx.sym.Variable("data")
    net = mx.sym.Group([data * 2, mx.sym.sum(data)])
    executor = net.simple_bind(mx.cpu(), data=(2, 2))
    first, total = executor.outputs
    assert (first.shape, total.shape) == ((2, 2), (1,))
    for number in (1, 3):
        executor.forward(data=mx.nd.ones((2, 2)) * number)
        assert (first.asnumpy() == 2 * number).all()
        assert total.asscalar() == 4 * number
