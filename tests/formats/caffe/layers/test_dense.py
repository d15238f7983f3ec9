"""InnerProduct and Embed."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("shape", "axis"), [((2, 3), 1), ((2, 3, 4, 5), 1), ((2, 3, 4), 2), ((2, 3, 4, 5), -2), ((2, 3, 4), -1)]
)
def test_inner_product_flattens_from_the_axis_on(tmp_path, shape, axis, transpose, bias):
    settings = f"num_output: 6 axis: {axis} transpose: {transpose} bias_term: {bias}".replace(
        "T", "t"
    ).replace("F", "f")
    graph = load(tmp_path, inputs(x=shape) + layer("InnerProduct", f"inner_product_param {{ {settings} }}"))
    arrays, x = stored(graph), normal(*shape)
    lead = shape[: axis % len(shape)]
    rows = x.reshape(*lead, -1)
    weight = arrays["InnerProduct/0"]
    assert weight.shape == ((rows.shape[-1], 6) if transpose else (6, rows.shape[-1]))
    expected = rows @ (weight if transpose else weight.T) + (arrays["InnerProduct/1"] if bias else 0)
    np.testing.assert_allclose(run(graph, x=x)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_embed(tmp_path, bias):
    settings = f"embed_param {{ num_output: 3 input_dim: 7 bias_term: {str(bias).lower()} }}"
    graph = load(tmp_path, inputs(x=(2, 4)) + layer("Embed", settings))
    arrays = stored(graph)
    words = np.array([[0, 6, 2, 2], [5, 1, 0, 3]])
    expected = arrays["Embed/0"][words] + (arrays["Embed/1"] if bias else 0)
    np.testing.assert_allclose(run(graph, x=words)["y"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        ("InnerProduct", "", ReadError, "'num_output' is 0, expected 1 or more"),
        (
            "InnerProduct",
            "inner_product_param { num_output: 1 axis: 4 }",
            ShapeError,
            "axis 4 is out of range",
        ),
        (
            "InnerProduct",
            "inner_product_param { num_output: 1 axis: 0 }",
            ShapeError,
            "on axis 0 is open",
        ),
        (
            "Embed",
            "embed_param { num_output: 2 }",
            ReadError,
            "'input_dim' is 0, expected 1 or more",
        ),
    ],
)
def test_wrong_settings_are_named(tmp_path, kind, settings, error, message):
    with pytest.raises(error, match=rf"net.prototxt:2: layer '{kind}' \({kind}\): .*{message}"):
        load(tmp_path, inputs(x=(2, 3)) + layer(kind, settings))
