"""Pooling and SPP against the loops of pooling_layer.cpp and .cu, over a sweep of geometries."""

from __future__ import annotations

from math import ceil, floor

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run

LOWEST = np.finfo(np.float32).min


def pooled(x, method, kernel, stride, pad, rounding=ceil):
    """pooling_layer.cpp: Reshape and Forward_cpu; stochastic as in StoPoolForwardTest."""
    out = [rounding((x.shape[2 + a] + 2 * pad[a] - kernel[a]) / stride[a]) + 1 for a in (0, 1)]
    if any(pad):
        out = [n - ((n - 1) * stride[a] >= x.shape[2 + a] + pad[a]) for a, n in enumerate(out)]
    y = np.zeros((*x.shape[:2], *out))
    for i, j in np.ndindex(*out):
        starts = [i * stride[0] - pad[0], j * stride[1] - pad[1]]
        ends = [min(starts[a] + kernel[a], x.shape[2 + a] + pad[a]) for a in (0, 1)]
        area = (ends[0] - starts[0]) * (ends[1] - starts[1])
        rows, columns = (slice(max(starts[a], 0), max(min(ends[a], x.shape[2 + a]), 0)) for a in (0, 1))
        window = x[:, :, rows, columns].reshape(*x.shape[:2], -1)
        if method == "MAX":
            y[:, :, i, j] = window.max(axis=2, initial=LOWEST)
        elif method == "AVE":
            y[:, :, i, j] = window.sum(axis=2) / max(area, 1)  # an empty window is 0 / 0 in Caffe, 0 here
        else:
            y[:, :, i, j] = (window**2).sum(axis=2) / np.maximum(window.sum(axis=2), 1e-30)
    return y


SWEEP = [
    (size, kernel, stride, pad)
    for size in ((5, 5), (6, 9), (7, 8))
    for kernel in ((2, 2), (3, 3), (3, 2))
    for stride in ((1, 1), (2, 2), (3, 2))
    for pad in ((0, 0), (1, 1), (0, 1))
]


@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_every_geometry(tmp_path, method):
    text, expected, arrays = "", {}, {}
    for index, (size, kernel, stride, pad) in enumerate(SWEEP):
        settings = (
            f"pool: {method} kernel_h: {kernel[0]} kernel_w: {kernel[1]} stride_h: {stride[0]} "
            f"stride_w: {stride[1]} pad_h: {pad[0]} pad_w: {pad[1]}"
        )
        x = arrays[f"x{index}"] = normal(2, 3, *size, seed=index)
        text += inputs(**{f"x{index}": x.shape})
        text += layer("Pooling", f"pooling_param {{ {settings} }}", bottoms=f"x{index}", tops=f"y{index}")
        expected[f"y{index}"] = pooled(x, method, kernel, stride, pad)
    found = run(load(tmp_path, text), **arrays)
    for index, case in enumerate(SWEEP):
        y = found[f"y{index}"]
        assert y.shape == expected[f"y{index}"].shape, case
        np.testing.assert_allclose(y, expected[f"y{index}"], rtol=1e-5, atol=1e-6, err_msg=str(case))


@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_stride_beyond_the_kernel(tmp_path, method):
    """Without padding Caffe keeps a last window that lies outside of the image."""
    text = inputs(x=(1, 2, 5, 5)) + layer(
        "Pooling", f"pooling_param {{ pool: {method} kernel_size: 1 stride: 3 }}"
    )
    x = normal(1, 2, 5, 5)
    y = run(load(tmp_path, text), x=x)["y"]
    assert y.shape == (1, 2, 3, 3)
    np.testing.assert_array_equal(y[:, :, :2, :2], x[:, :, ::3, ::3])
    if method == "MAX":
        assert (y[:, :, 2] == LOWEST).all()


@pytest.mark.parametrize("setting", ["round_mode: FLOOR", "ceil_mode: false"])
def test_rounding_down(tmp_path, setting):
    settings = f"pooling_param {{ pool: AVE kernel_size: 3 stride: 2 pad: 1 {setting} }}"
    text, x = inputs(x=(1, 2, 6, 7)) + layer("Pooling", settings), normal(1, 2, 6, 7)
    expected = pooled(x, "AVE", (3, 3), (2, 2), (1, 1), floor)
    np.testing.assert_allclose(run(load(tmp_path, text), x=x)["y"], expected, rtol=1e-5, atol=1e-6)


def test_stochastic_pooling_gives_its_expectation(tmp_path):
    text = inputs(x=(2, 3, 7, 7)) + layer(
        "Pooling", "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }"
    )
    x = np.maximum(normal(2, 3, 7, 7), 0)
    x[0, 0] = 0
    expected = pooled(x, "STOCHASTIC", (3, 3), (2, 2), (0, 0))
    np.testing.assert_allclose(run(load(tmp_path, text), x=x)["y"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ["MAX", "AVE"])
def test_global_pooling(tmp_path, method):
    text = inputs(x=(2, 3, 5, 4)) + layer(
        "Pooling", f"pooling_param {{ pool: {method} global_pooling: true }}"
    )
    x = normal(2, 3, 5, 4)
    expected = x.max(axis=(2, 3)) if method == "MAX" else x.mean(axis=(2, 3))
    np.testing.assert_allclose(
        run(load(tmp_path, text), x=x)["y"][:, :, 0, 0], expected, rtol=1e-5, atol=1e-6
    )


def test_second_top_is_the_place_in_the_plane(tmp_path):
    text = inputs(x=(2, 3, 6, 6)) + layer(
        "Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops="y where"
    )
    x = normal(2, 3, 6, 6)
    found = run(load(tmp_path, text), x=x)
    at = np.take_along_axis(x.reshape(2, 3, 36), found["where"].reshape(2, 3, 9).astype(int), axis=2)
    np.testing.assert_array_equal(at, found["y"].reshape(2, 3, 9))


@pytest.mark.parametrize(("height", "count"), [(1, 1), (2, 5), (3, 21)])
def test_spatial_pyramid(tmp_path, height, count):
    """spp_layer.cpp, GetPoolingParam: kernels that just cover, padding that centres."""
    text = inputs(x=(2, 3, 9, 7)) + layer("SPP", f"spp_param {{ pyramid_height: {height} pool: AVE }}")
    x = normal(2, 3, 9, 7)
    parts = []
    for level in range(height):
        bins = 2**level
        kernel = [ceil(size / bins) for size in (9, 7)]
        pad = [(k * bins - size + 1) // 2 for k, size in zip(kernel, (9, 7), strict=True)]
        parts.append(pooled(x, "AVE", kernel, kernel, pad).reshape(2, -1))
    y = run(load(tmp_path, text), x=x)["y"]
    assert y.shape == ((2, 3, 1, 1) if height == 1 else (2, 3 * count))
    np.testing.assert_allclose(y.reshape(2, -1), np.concatenate(parts, axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ("", ReadError, "has no 'kernel_size'"),
        ("kernel_size: 2 pad: 2", ReadError, r"padding \[2, 2\] must be less than the kernel \[2, 2\]"),
        ("kernel_size: 2 stride: 0", ReadError, r"stride is \[0, 0\], expected 1 or more"),
        (
            "kernel_size: 2 kernel_h: 2 kernel_w: 2",
            ReadError,
            "expected 'kernel_size', or both 'kernel_h' and",
        ),
        ("kernel_h: 2", ReadError, "expected 'kernel_size', or both 'kernel_h' and 'kernel_w'"),
        ("kernel_size: 9", ShapeError, "a window of 9 does not fit in 5 elements with padding 0"),
        ("global_pooling: true kernel_size: 5", ReadError, "has 'global_pooling' and 'kernel_size'"),
        ("global_pooling: true stride: 2", ReadError, "'global_pooling' requires padding 0 and stride 1"),
    ],
)
def test_wrong_settings_are_named(tmp_path, settings, error, message):
    text = inputs(x=(1, 3, 5, 5)) + layer("Pooling", f"pooling_param {{ {settings} }}")
    with pytest.raises(error, match=rf"net.prototxt:2: layer 'Pooling' \(Pooling\): {message}"):
        load(tmp_path, text)
