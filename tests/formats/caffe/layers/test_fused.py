"""Sums and ReLUs that the Intel branch has joined into the layer before them, and its nets for 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.errors import ShapeError, UnsupportedError
from tests.formats.caffe.nets import inputs, layer, load, normal, run

SIZES = (2, 3, 6, 7)
CONVOLUTION = "convolution_param { num_output: 3 kernel_size: 3 pad: 1 MORE }"
DENSE = "inner_product_param { num_output: 4 MORE }"


def rectified(x, slope=0.0):
    return np.maximum(x, 0) + slope * np.minimum(x, 0)


@pytest.mark.parametrize(
    ("kind", "settings", "slope"),
    [
        ("Convolution", CONVOLUTION, 0.0),
        ("Convolution", CONVOLUTION, 0.25),
        ("InnerProduct", DENSE, 0.0),
        ("InnerProduct", DENSE.replace("MORE", "axis: 2 MORE"), 0.25),
        ("BatchNorm", "batch_norm_param { MORE }", 0.0),
    ],
)
def test_a_joined_relu_comes_behind_its_layer(tmp_path, kind, settings, slope):
    more = "relu: true" + (f" negative_slope: {slope}" if slope else "")
    x = normal(*SIZES)
    nets = [
        load(tmp_path, inputs(x=SIZES) + layer(kind, settings.replace("MORE", text))) for text in ("", more)
    ]
    plain, fused = (run(net, x=x)["y"] for net in nets)
    assert (plain < 0).any()
    np.testing.assert_allclose(fused, rectified(plain, slope), rtol=1e-6, atol=1e-6)
    assert list(nets[0].parameters) == list(nets[1].parameters)


@pytest.mark.parametrize("relu", [False, True])
def test_a_joined_sum_is_added_before_the_relu(tmp_path, relu):
    more = "fusion_type: SUM_FUSION coeff: 1 coeff: 1" + " relu: true" * relu
    text = inputs(x=SIZES, z=SIZES)
    x, z = normal(*SIZES), normal(*SIZES, seed=1)
    plain = run(load(tmp_path, text + layer("Convolution", CONVOLUTION.replace("MORE", ""))), x=x, z=z)["y"]
    net = load(tmp_path, text + layer("Convolution", CONVOLUTION.replace("MORE", more), bottoms="x z"))
    expected = rectified(plain + z) if relu else plain + z
    np.testing.assert_allclose(run(net, x=x, z=z)["y"], expected, rtol=1e-6, atol=1e-6)


def test_a_sum_of_one_bottom_adds_nothing(tmp_path):
    """As in the branch: a net may be written with it before its second bottom is joined."""
    for more in ("", "fusion_type: SUM_FUSION"):
        net = load(tmp_path, inputs(x=SIZES) + layer("Convolution", CONVOLUTION.replace("MORE", more)))
        assert [node.op_type for node in net.nodes] == ["Conv"]


@pytest.mark.parametrize(
    ("kind", "more", "ends", "error", "message"),
    [
        ("Deconvolution", "relu: true", {}, UnsupportedError, "'relu' of the Intel branch is not supported"),
        (
            "Deconvolution",
            "fusion_type: SUM_FUSION",
            {},
            UnsupportedError,
            "'fusion_type' of the Intel branch",
        ),
        (
            "Convolution",
            "relu: true",
            {"bottoms": "x z", "tops": "y w"},
            netweave.errors.ReadError,
            "one top",
        ),
        (
            "Convolution",
            "fusion_type: SUM_FUSION coeff: 1 coeff: 2",
            {"bottoms": "x z"},
            UnsupportedError,
            r"'coeff' is \[1.0, 2.0\]",
        ),
        (
            "Convolution",
            "fusion_type: SUM_FUSION stride: 2",
            {"bottoms": "x z"},
            ShapeError,
            "adds its second bottom, of the size 3x6x7, expected 3x3x4",
        ),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path, kind, more, ends, error, message):
    text = inputs(x=SIZES, z=SIZES) + layer(kind, CONVOLUTION.replace("MORE", more), **ends)
    with pytest.raises(error, match=message):
        load(tmp_path, text)


def test_a_net_for_8_bits_computes_as_in_full_precision_and_says_so(tmp_path):
    """Int8 kernels alone say how it is rounded; weights, sums and ReLUs are those of the float net."""
    quantised = """ quantization_param {
      precision: DYNAMIC_FIXED_POINT bw_layer_in: 8 bw_layer_out: 8 bw_params: 8 scale_in: 1.5 scale_out: 0.5
      scale_params: 127 scale_params: 9 scale_params: 3 is_negative_input: true force_u8_input: false
    }"""
    more = 'relu: true conv_algorithm: "winograd"'
    text = inputs(x=SIZES) + layer("Convolution", CONVOLUTION.replace("MORE", more) + quantised)
    net, x = load(tmp_path, text), normal(*SIZES)
    plain = load(tmp_path, inputs(x=SIZES) + layer("Convolution", CONVOLUTION.replace("MORE", "")))
    np.testing.assert_allclose(run(net, x=x)["y"], rectified(run(plain, x=x)["y"]), rtol=1e-6, atol=1e-6)
    assert any("1 layer has a 'quantization_param'" in note for note in net.notes)
    assert net.layers["Convolution"].settings["quantization_param"]["is_negative_input"] is True
