"""Fillers and initializers: bounds, moments, exact patterns, and the rules that choose them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.errors import UsageError
from netweave.graph import Parameter
from netweave.training.optim.first_values import FILLERS, first_values

SHAPE = (60, 40, 5, 3)
"""fan-in 600, fan-out 900, average 750."""


def caffe(shape=SHAPE, *, seed=0, role="weight", **filler):
    return first_values(Parameter("conv1/0", shape, role, filler=filler), source="caffe", seed=seed)


def mxnet(shape=SHAPE, *, key="conv1_weight", **filler):
    return first_values(Parameter(key, shape, filler=filler), source="mxnet", seed=0)


def fused(**settings):
    init = json.dumps(["zero", {}])
    return mxnet((40,), type="fusedrnn", **{"init": init, "num_hidden": 4, "num_layers": 1, **settings})


def uniform_between(values, low, high):
    assert values.dtype == np.float32
    assert low <= values.min() < low + 0.01 * (high - low)
    assert high >= values.max() > high - 0.01 * (high - low)
    assert values.mean() == pytest.approx((low + high) / 2, abs=0.01 * (high - low))


def normal_with(values, mean, std):
    assert values.mean() == pytest.approx(mean, abs=0.03 * std)
    assert values.std() == pytest.approx(std, rel=0.02)
    assert np.mean(np.abs(values - mean) < std) == pytest.approx(0.6827, abs=0.01)


def test_caffes_fillers():
    assert np.all(caffe(type="constant", value=0.2) == np.float32(0.2))
    uniform_between(caffe(type="uniform", min=-1.0, max=3.0), -1, 3)
    normal_with(caffe(type="gaussian", mean=1.0, std=0.1), 1.0, 0.1)
    for norm, n in [("FAN_IN", 600), ("FAN_OUT", 900), ("AVERAGE", 750), (1, 900)]:
        bound = math.sqrt(3 / n)
        uniform_between(caffe(type="xavier", std=9.0, variance_norm=norm), -bound, bound)
        normal_with(caffe(type="msra", variance_norm=norm), 0.0, math.sqrt(2 / n))


def test_caffes_sparse_gaussian_keeps_a_share_of_the_outputs():
    values = caffe((50, 400), type="gaussian", std=2.0, sparse=10)
    assert np.mean(values != 0) == pytest.approx(10 / 50, abs=0.01)
    normal_with(values[values != 0], 0.0, 2.0)
    assert not caffe(type="gaussian", sparse=0).any()


def test_caffes_unit_ball_rows_sum_to_one():
    values = caffe(type="positive_unitball")
    assert values.min() >= 0
    np.testing.assert_allclose(values.reshape(60, -1).sum(axis=1), 1.0, rtol=1e-5)


def test_rows_of_the_normal_unit_ball_have_length_one():
    rows = caffe(type="gaussian_unitball").reshape(60, -1)
    np.testing.assert_allclose((rows**2).sum(axis=1), 1.0, rtol=1e-5)
    normal_with(rows * rows.shape[1] ** 0.5, 0.0, 1.0)


def test_bilinear_weights():
    """Caffe and MXNet agree on size 4; on others what MXNet 1.9.1 gives is lopsided."""
    even = np.array([0.25, 0.75, 0.75, 0.25])
    np.testing.assert_allclose(caffe((2, 1, 4, 4), type="bilinear")[1, 0], np.outer(even, even))
    np.testing.assert_allclose(mxnet((2, 1, 4, 4), type="bilinear")[1, 0], np.outer(even, even))
    caffe_odd, mxnet_odd = np.array([0.5, 1.0, 0.5]), np.array([0.25, 0.75, 0.75])
    np.testing.assert_allclose(caffe((1, 1, 3, 3), type="bilinear")[0, 0], np.outer(caffe_odd, caffe_odd))
    np.testing.assert_allclose(mxnet((1, 1, 3, 3), type="bilinear")[0, 0], np.outer(mxnet_odd, mxnet_odd))


def test_what_caffe_does_without_a_filler():
    assert not caffe().any()
    assert np.all(caffe((8,), role="gamma") == 1.0)
    assert np.all(caffe((8,), role="slope") == 0.25)


def test_mxnets_initializers():
    uniform_between(mxnet(type="uniform"), -0.07, 0.07)
    normal_with(mxnet(type="normal", sigma=0.5), 0.0, 0.5)
    for factor, n in [("in", 600), ("out", 900), ("avg", 750)]:
        bound = math.sqrt(2.34 / n)
        uniform_between(mxnet(type="xavier", factor_type=factor, magnitude=2.34), -bound, bound)
        normal_with(
            mxnet(type="msraprelu", factor_type=factor, slope=0.5), 0.0, math.sqrt(2 / (1 + 0.25) / n)
        )
    normal_with(mxnet(type="xavier", rnd_type="gaussian"), 0.0, math.sqrt(3 / 750))
    np.testing.assert_array_equal(mxnet((8,), type="lstmbias", forget_bias=2.0), [0, 0, 2, 2, 0, 0, 0, 0])
    np.testing.assert_array_equal(mxnet((3,), type="constant", value=[1, 2, 3]), [1, 2, 3])
    assert np.all(mxnet(type="Ones") == 1.0)
    assert not mxnet(type="zeros").any()


FUSED = json.loads((Path(__file__).parents[2] / "golden" / "mxnet_fused_rnn.json").read_text())


@pytest.mark.parametrize("row", FUSED, ids=[row["settings"]["mode"] for row in FUSED])
def test_a_recurrent_layers_vector_is_laid_out_as_mxnets(row):
    expected = np.concatenate([np.full(count, value) for value, count in row["runs"]])
    init = json.dumps(["constant", {"value": 0.25}])
    found = mxnet(expected.shape, key="rnn_parameters", type="fusedrnn", init=init, **row["settings"])
    np.testing.assert_array_equal(found, expected)


def test_each_gate_of_a_recurrent_layer_is_filled_by_itself():
    init = json.dumps(["orthogonal", {"scale": 1.0}])
    settings = {"init": init, "num_hidden": 6, "num_layers": 1, "mode": "lstm"}
    values = mxnet((4 * 6 * (3 + 6 + 2),), key="rnn_parameters", type="fusedrnn", **settings)
    inside = values[: 4 * 6 * 3].reshape(4, 6, 3)
    hidden = values[4 * 6 * 3 :][: 4 * 6 * 6].reshape(4, 6, 6)
    for gate in range(4):
        np.testing.assert_allclose(inside[gate].T @ inside[gate], np.eye(3), atol=1e-6)
        np.testing.assert_allclose(hidden[gate] @ hidden[gate].T, np.eye(6), atol=1e-6)


def test_a_recurrent_layer_without_an_initializer_of_its_own_gets_that_for_weights():
    values = mxnet(
        (4 * 2 * (3 + 2 + 2),),
        key="rnn_parameters",
        type="fusedrnn",
        init=None,
        num_hidden=2,
        num_layers=1,
        mode="lstm",
    )
    assert 0.009 < np.abs(values[: 4 * 2 * 5]).max() <= 0.01


@pytest.mark.parametrize("shape", [(20, 30), (30, 20), (20, 5, 3, 2)])
@pytest.mark.parametrize("rand_type", ["uniform", "normal"])
def test_orthogonal_rows_or_columns(shape, rand_type):
    values = mxnet(shape, type="orthogonal", scale=2.0, rand_type=rand_type).reshape(shape[0], -1)
    product = values @ values.T if values.shape[0] <= values.shape[1] else values.T @ values
    np.testing.assert_allclose(product, 4.0 * np.eye(len(product)), atol=1e-5)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("fc1_bias", 0.0),
        ("bn_gamma", 1.0),
        ("bn_beta", 0.0),
        ("bn_moving_mean", 0.0),
        ("bn_moving_var", 1.0),
        ("bn_moving_inv_var", 0.0),
        ("x_min", 0.0),
        ("x_max", 1.0),
        ("stn_loc_fc2_weight", 0.0),
    ],
)
def test_mxnets_rules_by_name(key, expected):
    assert np.all(mxnet((6,), key=key) == expected)


def test_mxnets_default_is_for_weights():
    uniform_between(mxnet(), -0.01, 0.01)
    np.testing.assert_array_equal(mxnet((6,), key="stn_loc_fc2_bias"), [1, 0, 0, 0, 1, 0])
    assert mxnet((1, 1, 4, 4), key="upsampling0_weight")[0, 0, 1, 1] == 0.75 * 0.75


def test_a_parameter_is_drawn_by_its_key_and_the_seed():
    def draw(key, seed):
        parameter = Parameter(key, (50,), filler={"type": "gaussian"})
        return first_values(parameter, source="caffe", seed=seed)

    np.testing.assert_array_equal(draw("a/0", 1), draw("a/0", 1))
    assert not np.array_equal(draw("a/0", 1), draw("a/0", 2))
    assert not np.array_equal(draw("a/0", 1), draw("b/0", 1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: caffe(type="orthogonal"),
            "'conv1/0': unknown filler 'caffe.orthogonal'; expected one of caffe.b",
        ),
        (lambda: caffe(type="xavier", variance_norm="FAN"), "'caffe.xavier': variance_norm is FAN, expected"),
        (lambda: caffe((2, 1, 4, 3), type="bilinear"), r"the shape is \(2, 1, 4, 3\), expected 4 axes"),
        (lambda: mxnet((5,), type="xavier"), r"'mxnet.xavier': the shape is \(5,\), expected at least 2"),
        (lambda: mxnet(type="xavier", gain=2), "filler 'mxnet.xavier' has no gain; it has: rnd_type, "),
        (lambda: mxnet(type="orthogonal", rand_type="x"), "rand_type is 'x', expected uniform or normal"),
        (lambda: fused(mode="elman"), "mode is 'elman', expected rnn_relu, rnn_tanh, lstm, gru"),
        (lambda: fused(mode="gru"), r"the shape is \(40,\), which 1 layers of 4 units do not have"),
        (lambda: mxnet(key="state"), "'state': MXNet has no default initializer for this name"),
        (
            lambda: first_values(Parameter("w", (1,)), source="onnx", seed=0),
            "'w' has neither values nor an initializer",
        ),
    ],
)
def test_what_cannot_be_filled(call, message):
    with pytest.raises(UsageError, match=message):
        call()


def test_every_filler_is_tried():
    caffe_names = "constant uniform gaussian positive_unitball gaussian_unitball xavier msra bilinear"
    mxnet_names = "zero zeros one ones constant uniform normal orthogonal xavier msraprelu bilinear lstmbias"
    mxnet_names += " fusedrnn"
    known = {f"caffe.{name}" for name in caffe_names.split()} | {f"mxnet.{n}" for n in mxnet_names.split()}
    known |= {
        kind for kind in FILLERS if kind.startswith(("darknet.", "keras.", "singa."))
    }  # in test_singa and tests/keras
    assert set(FILLERS) == known
