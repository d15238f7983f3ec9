"""Eltwise, Scale and Bias."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored

A, B, C = (normal(2, 3, 4, seed=seed) for seed in range(3))


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("", A + B + C),
        ("eltwise_param { operation: SUM coeff: 1 coeff: -1 coeff: 0.5 }", A - B + 0.5 * C),
        ("eltwise_param { operation: PROD }", A * B * C),
        ("eltwise_param { operation: 2 }", np.maximum(np.maximum(A, B), C)),
    ],
)
def test_eltwise(tmp_path, settings, expected):
    text = inputs(a=A.shape, b=A.shape, c=A.shape) + layer("Eltwise", settings, bottoms="a b c")
    np.testing.assert_allclose(run(load(tmp_path, text), a=A, b=B, c=C)["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "shape", "axes"),
    [
        ("", (3,), (1, 3, 1, 1)),
        ("axis: 2 num_axes: 2", (4, 5), (1, 1, 4, 5)),
        ("axis: 1 num_axes: -1", (3, 4, 5), (1, 3, 4, 5)),
        ("axis: -1", (5,), (1, 1, 1, 5)),
        ("num_axes: 0", (), (1, 1, 1, 1)),
    ],
)
def test_scale_and_bias_along_some_axes(tmp_path, settings, shape, axes):
    text = (
        inputs(x=(2, 3, 4, 5))
        + layer("Scale", f"scale_param {{ bias_term: true {settings} }}")
        + layer("Bias", f"bias_param {{ {settings} }}", tops="z")
    )
    graph, x = load(tmp_path, text), normal(2, 3, 4, 5)
    arrays = stored(graph)
    assert {arrays[key].shape for key in ("Scale/0", "Scale/1", "Bias/0")} == {shape}
    gamma, beta, term = (arrays[key].reshape(axes) for key in ("Scale/0", "Scale/1", "Bias/0"))
    found = run(graph, x=x)
    np.testing.assert_allclose(found["y"], x * gamma + beta, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["z"], x + term, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "shape", "axes"),
    [
        ("", (3,), (1, 3, 1)),
        ("axis: 0", (2, 3), (2, 3, 1)),
        ("axis: 1", (3, 4), (1, 3, 4)),
        ("axis: 0", (2,), (2, 1, 1)),
    ],
)
def test_scale_by_the_second_bottom(tmp_path, settings, shape, axes):
    text = inputs(x=(2, 3, 4), s=shape) + layer(
        "Scale", f"scale_param {{ bias_term: true {settings} }}", bottoms="x s"
    )
    graph, x, s = load(tmp_path, text), normal(2, 3, 4), normal(*shape, seed=1)
    bias = stored(graph)["Scale/0"]
    assert bias.shape == shape
    np.testing.assert_allclose(run(graph, x=x, s=s)["y"], x * s.reshape(axes) + bias.reshape(axes), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            layer("Eltwise", bottoms="x z"),
            ShapeError,
            r"its bottoms must have the same shape, found \?x3x4, \?x4x3",
        ),
        (
            layer("Eltwise", "eltwise_param { operation: PROD coeff: 1 coeff: 2 }", bottoms="x x"),
            ReadError,
            "has 2 'coeff' for PROD of 2 bottoms",
        ),
        (
            layer("Eltwise", "eltwise_param { coeff: 1 }", bottoms="x x"),
            ReadError,
            "has 1 'coeff' for SUM of 2",
        ),
        (layer("Eltwise"), ReadError, "has 1 bottom, expected 2 or more"),
        (
            layer("Scale", bottoms="x z"),
            ShapeError,
            r"its second bottom is \?x4x3, which does not match the first",
        ),
        (
            layer("Scale", "scale_param { num_axes: 5 }"),
            ShapeError,
            "axes 1 to 5 are out of range for 3 axes",
        ),
        (
            layer("Bias", "bias_param { axis: 3 }"),
            ShapeError,
            "axis 3 is out of range for 3 axes",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path, text, error, message):
    with pytest.raises(error, match=rf"net.prototxt:3: layer '\w+' \(\w+\): {message}"):
        load(tmp_path, inputs(x=(2, 3, 4), z=(2, 4, 3)) + text)


@pytest.mark.parametrize("scale", [(2, 3, 1, 1), (2, 3)])
def test_axpy_scales_each_channel_and_adds(tmp_path, scale):
    x = (2, 3, 4, 5)
    text = inputs(a=scale, x=x, b=x) + layer("Axpy", bottoms="a x b")
    a, b = normal(*scale), normal(*x, seed=1)
    expected = a.reshape(2, 3, 1, 1) * normal(*x) + b
    np.testing.assert_allclose(run(load(tmp_path, text), a=a, x=normal(*x), b=b)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize("shapes", [((2, 3, 4, 5), (2, 3, 4, 5)), ((2, 4, 1, 1), (2, 3, 4, 5))])
def test_axpy_of_sizes_that_do_not_fit_is_refused(tmp_path, shapes):
    text = inputs(a=shapes[0], x=(2, 3, 4, 5), b=shapes[1]) + layer("Axpy", bottoms="a x b")
    with pytest.raises(ShapeError, match="expected one number per channel and two of the same shape"):
        load(tmp_path, text)


X = normal(2, 3, 4, 5)

SUMS = {
    "SUM": np.sum,
    "ASUM": lambda x, axis: abs(x).sum(axis),
    "SUMSQ": lambda x, axis: (x**2).sum(axis),
    "MEAN": np.mean,
}


@pytest.mark.parametrize("operation", SUMS)
@pytest.mark.parametrize("axis", [0, 1, -2])
def test_reduction_takes_all_axes_from_one_on(tmp_path, operation, axis):
    text = layer("Reduction", f"reduction_param {{ operation: {operation} axis: {axis} coeff: 0.5 }}")
    expected = 0.5 * SUMS[operation](X, axis=tuple(range(axis % 4, 4)))
    found = run(load(tmp_path, inputs(x=X.shape) + text), x=X)["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("axis", [1, 3, -2])
def test_softmax(tmp_path, axis):
    text = inputs(x=X.shape) + layer("Softmax", f"softmax_param {{ axis: {axis} }}")
    expected = np.exp(X) / np.exp(X).sum(axis, keepdims=True)
    np.testing.assert_allclose(run(load(tmp_path, text), x=X)["y"], expected, rtol=1e-5)


def best(values, top_k):
    """argmax_layer.cpp: pairs of value and index, greatest first, so that of equals the last comes first."""
    pairs = sorted(((value, index) for index, value in enumerate(values)), reverse=True)[:top_k]
    return [index for _, index in pairs], [value for value, _ in pairs]


TIES = np.round(X * 2) / 2


@pytest.mark.parametrize("top_k", [1, 3])
@pytest.mark.parametrize("values", [False, True])
def test_arg_max_over_an_image(tmp_path, top_k, values):
    settings = f"argmax_param {{ top_k: {top_k} out_max_val: {str(values).lower()} }}"
    found = run(load(tmp_path, inputs(x=X.shape) + layer("ArgMax", settings)), x=TIES)["y"]
    expected = [best(image.ravel(), top_k)[: 2 if values else 1] for image in TIES]
    np.testing.assert_array_equal(found, np.array(expected, np.float32))


@pytest.mark.parametrize("top_k", [1, 2])
@pytest.mark.parametrize("values", [False, True])
def test_arg_max_along_an_axis_gives_indices_or_values(tmp_path, top_k, values):
    settings = f"argmax_param {{ axis: 1 top_k: {top_k} out_max_val: {str(values).lower()} }}"
    found = run(load(tmp_path, inputs(x=X.shape) + layer("ArgMax", settings)), x=TIES)["y"]
    expected = np.apply_along_axis(lambda row: best(row, top_k)[1 if values else 0], 1, TIES)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_too_large_a_top_k_is_named(tmp_path):
    with pytest.raises(
        ReadError, match=r"net.prototxt:2: layer 'ArgMax' \(ArgMax\): 'top_k' is 4, expected 1 to 3"
    ):
        load(tmp_path, inputs(x=X.shape) + layer("ArgMax", "argmax_param { axis: 1 top_k: 4 }"))
