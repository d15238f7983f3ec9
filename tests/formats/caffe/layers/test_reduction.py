"""Reduction, Softmax and ArgMax."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError
from tests.formats.caffe.nets import inputs, layer, load, normal, run

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
