"""Convolution, Deconvolution and Im2col against their loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError, UnsupportedError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored


def window_places(size, kernel, stride, pad, dilation):
    """Return for each output place the input places of its window; those in the padding are None."""
    count = (size + 2 * pad - (dilation * (kernel - 1) + 1)) // stride + 1
    places = [[i * stride - pad + j * dilation for j in range(kernel)] for i in range(count)]
    return [[p if 0 <= p < size else None for p in row] for row in places]


def convolve(x, weight, bias, *, stride, pad, dilation, group):
    """conv_layer.cpp by sums over windows, for any number of spatial axes."""
    num_axes = x.ndim - 2
    axes = [
        window_places(x.shape[2 + a], weight.shape[2 + a], stride[a], pad[a], dilation[a])
        for a in range(num_axes)
    ]
    y = np.zeros((x.shape[0], weight.shape[0], *map(len, axes)))
    ins, outs = x.shape[1] // group, weight.shape[0] // group
    for out in np.ndindex(*y.shape[2:]):
        rows = [axes[a][i] for a, i in enumerate(out)]
        for tap in np.ndindex(*weight.shape[2:]):
            place = tuple(rows[a][i] for a, i in enumerate(tap))
            if None in place:
                continue
            for g in range(group):
                taken = x[(slice(None), slice(g * ins, (g + 1) * ins), *place)]
                filters = weight[(slice(g * outs, (g + 1) * outs), slice(None), *tap)]
                y[(slice(None), slice(g * outs, (g + 1) * outs), *out)] += taken @ filters.T
    return y + (0 if bias is None else bias.reshape(1, -1, *[1] * num_axes))


GEOMETRIES = [
    ("kernel_size: 3", {"kernel": (3, 3)}),
    ("kernel_size: 3 stride: 2 pad: 1", {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1)}),
    ("kernel_h: 2 kernel_w: 3 stride_h: 2 stride_w: 1 pad_h: 0 pad_w: 2",
     {"kernel": (2, 3), "stride": (2, 1), "pad": (0, 2)}),
    ("kernel_size: 2 kernel_size: 3 dilation: 2", {"kernel": (2, 3), "dilation": (2, 2)}),
    ("kernel_size: 3 dilation: 1 dilation: 2 group: 2", {"kernel": (3, 3), "dilation": (1, 2), "group": 2}),
    ("kernel_size: 1 group: 4 bias_term: false", {"kernel": (1, 1), "group": 4, "bias": False}),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "geometry"), GEOMETRIES)
def test_convolution(tmp_path, settings, geometry):
    graph = load(
        tmp_path,
        inputs(x=(2, 4, 7, 8)) + layer("Convolution", f"convolution_param {{ num_output: 8 {settings} }}"),
    )
    arrays, x = stored(graph), normal(2, 4, 7, 8)
    group = geometry.get("group", 1)
    assert arrays["Convolution/0"].shape == (8, 4 // group, *geometry["kernel"])
    expected = convolve(
        x, arrays["Convolution/0"], arrays["Convolution/1"] if geometry.get("bias", True) else None,
        stride=geometry.get("stride", (1, 1)), pad=geometry.get("pad", (0, 0)),
        dilation=geometry.get("dilation", (1, 1)), group=group,
    )  # fmt: skip
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(2, 3, 9), (1, 2, 4, 5, 6)])
def test_convolution_over_any_number_of_axes(tmp_path, shape):
    text = inputs(x=shape) + layer(
        "Convolution", "convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 }"
    )
    graph, x = load(tmp_path, text), normal(*shape)
    n = len(shape) - 2
    arrays = stored(graph)
    expected = convolve(
        x,
        arrays["Convolution/0"],
        arrays["Convolution/1"],
        stride=[2] * n,
        pad=[1] * n,
        dilation=[1] * n,
        group=1,
    )
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "geometry"),
    [
        ("kernel_size: 3 stride: 2", {"stride": 2}),
        ("kernel_size: 4 stride: 2 pad: 1 group: 2", {"stride": 2, "pad": 1, "group": 2, "kernel": 4}),
        ("kernel_size: 3 dilation: 2 pad: 2 bias_term: false", {"dilation": 2, "pad": 2}),
    ],
)
def test_deconvolution_is_the_transpose_of_convolution(tmp_path, settings, geometry):
    """<conv(a), b> = <a, deconv(b)> for the same weights, which Caffe stores as [in, out / group, ...]."""
    graph = load(
        tmp_path,
        inputs(x=(1, 4, 5, 6)) + layer("Deconvolution", f"convolution_param {{ num_output: 2 {settings} }}"),
    )
    arrays, b = stored(graph), normal(1, 4, 5, 6)
    (bias,) = [arrays.get("Deconvolution/1", np.zeros(2, np.float32))]
    y = run(graph, x=b)["y"] - bias.reshape(1, 2, 1, 1)
    kernel, stride, pad = geometry.get("kernel", 3), geometry.get("stride", 1), geometry.get("pad", 0)
    extent = geometry.get("dilation", 1) * (kernel - 1) + 1
    assert y.shape == (1, 2, stride * 4 + extent - 2 * pad, stride * 5 + extent - 2 * pad)
    a = normal(*y.shape, seed=1)
    there = convolve(
        a, arrays["Deconvolution/0"], None, stride=[stride] * 2, pad=[pad] * 2,
        dilation=[geometry.get("dilation", 1)] * 2, group=geometry.get("group", 1),
    )  # fmt: skip
    assert (there * b).sum() == pytest.approx((a * y).sum(), rel=1e-4)


def test_several_bottoms_share_the_weights(tmp_path):
    text = inputs(x=(2, 3, 5, 5), z=(2, 3, 5, 5)) + layer(
        "Convolution", "convolution_param { num_output: 2 kernel_size: 3 }", bottoms="x z", tops="y w"
    )
    graph, x = load(tmp_path, text), normal(2, 3, 5, 5)
    found = run(graph, x=x, z=x)
    np.testing.assert_array_equal(found["y"], found["w"])
    assert list(graph.parameters) == ["Convolution/0", "Convolution/1"]


def test_im2col_orders_channel_row_column(tmp_path):
    text = inputs(x=(1, 2, 4, 4)) + layer("Im2col", "convolution_param { kernel_size: 2 stride: 2 }")
    graph, x = load(tmp_path, text), normal(1, 2, 4, 4)
    y = run(graph, x=x)["y"]
    for index, (c, i, j) in enumerate(itertools.product(range(2), range(2), range(2))):
        np.testing.assert_array_equal(y[0, index], x[0, c, i::2, j::2])


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ("num_output: 2", ReadError, "has no 'kernel_size'"),
        ("kernel_size: 3", ReadError, "'num_output' is 0, expected 1 or more"),
        (
            "num_output: 2 kernel_size: 3 kernel_h: 3 kernel_w: 3",
            ReadError,
            "has both 'kernel_size' and 'kernel_h'",
        ),
        (
            "num_output: 2 kernel_size: 3 kernel_size: 3 kernel_size: 3",
            ReadError,
            "'kernel_size' has 3 values, expected 1 or 2",
        ),
        ("num_output: 2 kernel_size: 3 stride_h: 2", ReadError, r"stride is \[2, 0\], expected 1 or more"),
        ("num_output: 2 kernel_size: 0", ReadError, r"kernel is \[0, 0\], expected 1 or more"),
        (
            "num_output: 2 kernel_size: 9",
            ShapeError,
            "a window of 9 does not fit in 5 elements with padding 0",
        ),
        (
            "num_output: 2 kernel_size: 3 group: 2",
            ShapeError,
            "'group' is 2, which does not divide 3 channels",
        ),
        (
            "num_output: 2 kernel_size: 3 axis: 2",
            UnsupportedError,
            "the channels must be on axis 1 of 3 or more",
        ),
        (
            "num_output: 4294967295 kernel_size: 5",
            ShapeError,
            r"its array 'Convolution/0' would be 4294967295x3x5x5, expected at most",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, error, message):
    text = inputs(x=(1, 3, 5, 5)) + layer("Convolution", f"convolution_param {{ {settings} }}")
    with pytest.raises(error, match=rf"net.prototxt:2: layer 'Convolution' \(Convolution\): {message}"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [("DepthwiseConvolution", "num_output: 3 group: 3"), ("ConvolutionDepthwise", "num_output: 7")],
)
def test_a_depthwise_layer_has_a_window_for_each_channel(tmp_path, kind, settings):
    text = inputs(x=(2, 3, 5, 5)) + layer(kind, f"convolution_param {{ {settings} kernel_size: 3 }}")
    graph, x = load(tmp_path, text), normal(2, 3, 5, 5)
    weight, bias = (stored(graph)[f"{kind}/{i}"] for i in (0, 1))
    assert weight.shape == (3, 1, 3, 3)
    expected = np.zeros((2, 3, 3, 3)) + bias.reshape(1, 3, 1, 1)
    for i in range(3):
        for j in range(3):
            expected += x[:, :, i : i + 3, j : j + 3] * weight[:, 0, i, j].reshape(1, 3, 1, 1)
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("settings", ["num_output: 3", "num_output: 6 group: 3"])
def test_a_depthwise_layer_with_other_groups_is_refused(tmp_path, settings):
    settings = f"convolution_param {{ {settings} kernel_size: 3 }}"
    with pytest.raises(ReadError, match="expected the number of its channels, 3"):
        load(tmp_path, inputs(x=(2, 3, 5, 5)) + layer("DepthwiseConvolution", settings))
