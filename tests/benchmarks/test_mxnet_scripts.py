"""The comparison of MXNet's networks: nets with casts, and what counts as agreeing."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from benchmarks.mxnet_scripts.compat.network_step import SINGLE, _with_casts
from benchmarks.mxnet_scripts.symbols import compared


def net():
    x = mx.sym.Convolution(mx.sym.Variable("data"), num_filter=4, kernel=(3, 3), name="conv")
    x = mx.sym.LRN(x, nsize=3, name="norm")
    anchors = mx.sym.contrib.MultiBoxPrior(x, sizes=(0.2, 0.4), ratios=(1, 2), name="anchors")
    scores = mx.sym.Reshape(mx.sym.mean(x, axis=1), shape=(1, 1, -1))
    scores = mx.sym.Concat(scores, scores * 0.5, dim=1)
    scores = mx.sym.Concat(scores, scores, scores, dim=2)
    targets = mx.sym.contrib.MultiBoxTarget(anchors, mx.sym.Variable("label"), scores, name="target")
    return mx.sym.Group([mx.sym.BlockGrad(targets[2]), mx.sym.MakeLoss(mx.sym.sum(x)), targets[0], anchors])


def computed(symbol, kind):
    names = symbol.list_arguments()
    types = dict.fromkeys(names, kind)
    executor = symbol.simple_bind(mx.cpu(), type_dict=types, data=(1, 3, 8, 8), label=(1, 2, 5))
    generator = np.random.default_rng(0)
    for name in names:
        array = executor.arg_dict[name]
        array[:] = generator.uniform(0.1, 0.9, array.shape)
    executor.forward(is_train=True)
    executor.backward()
    return [one.asnumpy() for one in executor.outputs], executor.grad_dict["conv_weight"].asnumpy()


def test_a_net_with_casts_is_the_same_net():
    plain = net()
    cast = mx.sym.load_json(json.dumps(_with_casts(json.loads(plain.tojson()))))
    assert cast.list_arguments() == plain.list_arguments()
    document = json.loads(cast.tojson())
    for node in document["nodes"]:
        before = [document["nodes"][index] for index, *_ in node["inputs"]]
        kinds = {one["attrs"]["dtype"] for one in before if one["op"] == "Cast"}
        assert kinds <= ({"float32"} if node["op"] in SINGLE else {"float64"}), node["name"]
        assert node["op"] in SINGLE or not any(one["op"] in SINGLE for one in before) or node["op"] == "Cast"
    (expected, of_expected), (found, of_found) = computed(plain, "float32"), computed(cast, "float64")
    assert all(one.dtype == np.float64 for one in found)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_found, of_expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "change", "verdict"),
    [
        ("gradient w", lambda array: array, "agrees in 64 bits: outputs 0.0e+00, gradients 0.0e+00"),
        (
            "gradient w",
            lambda array: array * (1 + 1e-5),
            "differs in 64 bits: outputs 0.0e+00, gradients 1.0e-05",
        ),
        ("output 0", lambda array: array + 1e-5, "differs in 64 bits: outputs"),
        ("output 0", lambda array: array * np.nan, "output 0: not all numbers are finite"),
        ("gradient w", lambda array: array * np.inf, "gradient w: not all numbers are finite"),
        ("output 0", lambda array: array[:1], "output 0: shape"),
        ("shape data", lambda array: array + 1, "shape data: "),
    ],
)
def test_what_counts_as_agreeing(tmp_path, name, change, verdict):
    generator = np.random.default_rng(0)
    arrays = {
        "output 0": generator.uniform(0.5, 1, (2, 3)),
        "gradient w": generator.uniform(0.5, 1, (4,)),
        "shape data": np.array([1, 2]),
    }
    np.savez(tmp_path / "theirs.npz", **arrays)
    np.savez(tmp_path / "ours.npz", **{**arrays, name: change(arrays[name])})
    assert compared(tmp_path / "ours.npz", tmp_path / "theirs.npz").startswith(verdict)
