"""Layer normalisation in the forms of exporters becomes one operator that computes what the parts do."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import attributes_of
from netweave.graph.passes import fuse_layer_norm, fuse_rms_norm
from tests.formats.onnx.models import load, model, node, normal, run

EPSILON = 0.01
NUMBERS = {
    "axes": np.array([-1]), "two": np.float32(2), "half": np.float32(0.5), "minus": np.float32(-0.5),
    "eps": np.float32(EPSILON), "g": normal(6), "b": normal(6, seed=1),
}  # fmt: skip

MEAN = [node("ReduceMean", "x axes", "m", keepdims=1), node("Sub", "x m", "d")]
POWER = [node("Pow", "d two", "q"), node("ReduceMean", "q axes", "v", keepdims=1), node("Add", "v eps", "w")]
PRODUCT = [node("Mul", "d d", "q"), node("ReduceMean", "q axes", "v", keepdims=1), node("Add", "eps v", "w")]
ENDING = [node("Mul", "n g", "s"), node("Add", "s b", "y")]

FORMS = {
    "torch": [*MEAN, *POWER, node("Sqrt", "w", "r"), node("Div", "d r", "n"), *ENDING],
    "a variance that drops its axis, and the mean again": [
        *MEAN, node("Mul", "d d", "q"), node("ReduceMean", "q axes", "u", keepdims=0),
        node("Unsqueeze", "u axes", "v"), node("Add", "v eps", "w"), node("Sqrt", "w", "r"),
        node("ReduceMean", "x axes", "again", keepdims=1), node("Sub", "x again", "e"),
        node("Div", "e r", "n"), *ENDING,
    ],
    "a second difference": [
        *MEAN, *POWER, node("Sub", "x m", "e"), node("Pow", "w half", "r"), node("Div", "e r", "n"), *ENDING,
    ],
    "reciprocal": [
        *MEAN, *PRODUCT, node("Sqrt", "w", "r"), node("Reciprocal", "r", "i"), node("Mul", "i d", "n"),
        *ENDING,
    ],
    "inverse power": [*MEAN, *PRODUCT, node("Pow", "w minus", "i"), node("Mul", "d i", "n"), *ENDING],
    "tensorflow": [
        *MEAN, *PRODUCT, node("Sqrt", "w", "r"), node("Reciprocal", "r", "i"), node("Mul", "i g", "f"),
        node("Mul", "x f", "h"), node("Mul", "m f", "k"), node("Sub", "b k", "j"), node("Add", "h j", "y"),
    ],
    "keras": [
        *MEAN, *PRODUCT, node("Sqrt", "w", "r"), node("Reciprocal", "r", "i"), node("Mul", "i g", "f"),
        node("Mul", "x f", "h"), node("Neg", "m", "o"), node("Mul", "o f", "k"), node("Add", "k b", "j"),
        node("Add", "h j", "y"),
    ],
    "keras, the shift last": [
        *MEAN, *PRODUCT, node("Pow", "w minus", "i"), node("Mul", "x i", "h"), node("Mul", "m i", "k"),
        node("Sub", "h k", "j"), node("Add", "j b", "y"),
    ],
    "keras, without shift": [
        *MEAN, *PRODUCT, node("Pow", "w minus", "i"), node("Mul", "g i", "f"), node("Mul", "f x", "h"),
        node("Neg", "m", "o"), node("Mul", "o f", "k"), node("Add", "k h", "y"),
    ],
    "the scale first": [
        *MEAN, *PRODUCT, node("Pow", "w minus", "i"), node("Mul", "i g", "f"), node("Mul", "d f", "s"),
        node("Add", "s b", "y"),
    ],
    "pooled": [
        node("GlobalAveragePool", "x", "m"), node("Sub", "x m", "d"), node("Mul", "d d", "q"),
        node("GlobalAveragePool", "q", "v"), node("Add", "v eps", "w"), node("Sqrt", "w", "r"),
        node("Div", "d r", "n"), *ENDING,
    ],
    "without shift": [
        *MEAN, *POWER, node("Sqrt", "w", "r"), node("Div", "d r", "n"), node("Mul", "g n", "y"),
    ],
    "plain": [*MEAN, *POWER, node("Sqrt", "w", "r"), node("Div", "d r", "y")],
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_each_form_becomes_one_operator_that_computes_the_same(name, tmp_path):
    made = model(FORMS[name], {"x": ["N", 5, 6]}, ["y"], NUMBERS)
    fused = fuse_layer_norm(load(made, tmp_path))
    (found,) = fused.nodes
    assert found.op_type == "LayerNormalization"
    assert attributes_of(found) == {"axis": -1, "epsilon": pytest.approx(EPSILON)}
    x = normal(3, 5, 6, seed=2) + 1
    (expected,) = run(made, {"x": x})
    np.testing.assert_allclose(netweave.run(fused, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


SQUARES = [node("Mul", "x x", "q"), node("ReduceMean", "q axes", "v", keepdims=1), node("Add", "v eps", "w")]

RMS_FORMS = {
    "divided": [*SQUARES, node("Sqrt", "w", "r"), node("Div", "x r", "n"), node("Mul", "n g", "y")],
    "multiplied": [*SQUARES, node("Pow", "w minus", "i"), node("Mul", "x i", "n"), node("Mul", "n g", "y")],
    "the scale first": [
        *SQUARES,
        node("Pow", "w minus", "i"),
        node("Mul", "i g", "f"),
        node("Mul", "f x", "y"),
    ],
    "plain": [*SQUARES, node("Pow", "w minus", "i"), node("Mul", "x i", "y")],
}


@pytest.mark.parametrize("name", RMS_FORMS)
def test_each_form_without_a_mean_becomes_one_operator_that_computes_the_same(name, tmp_path):
    made = model(RMS_FORMS[name], {"x": ["N", 5, 6]}, ["y"], NUMBERS)
    fused = fuse_rms_norm(load(made, tmp_path))
    assert [each.op_type for each in fused.nodes] == ["RMSNormalization"]
    x = normal(3, 5, 6, seed=2) + 1
    (expected,) = run(made, {"x": x})
    np.testing.assert_allclose(netweave.run(fused, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


OTHERS = {
    "the mean is added": [node("Mul", "m i", "k"), node("Add", "h k", "y")],
    "the mean is negated twice": [
        node("Neg", "m", "o"), node("Mul", "o i", "k"), node("Sub", "h k", "y"),
    ],
    "the mean alone is subtracted": [node("Sub", "h m", "y")],
    "the mean is subtracted twice": [
        node("Mul", "m i", "k"), node("Sub", "h k", "j"), node("Sub", "j k", "y"),
    ],
    "the product is subtracted": [node("Mul", "m i", "k"), node("Sub", "k h", "y")],
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_a_sum_of_other_terms_keeps_its_value(name, tmp_path):
    """What is nearly a normalisation stays, or becomes one with nodes around it that make up for it."""
    start = [*MEAN, *PRODUCT, node("Pow", "w minus", "i"), node("Mul", "x i", "h")]
    made = model([*start, *OTHERS[name]], {"x": ["N", 5, 6]}, ["y"], NUMBERS)
    fused = fuse_layer_norm(load(made, tmp_path))
    x = normal(3, 5, 6, seed=2) + 1
    (expected,) = run(made, {"x": x})
    np.testing.assert_allclose(netweave.run(fused, {"x": x})["y"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [[1], [1, 2]])
def test_only_the_last_axes_are_a_layer(axes, tmp_path):
    arrays = {**NUMBERS, "axes": np.array(axes)}
    made = model(FORMS["plain"], {"x": ["N", 5, 6]}, ["y"], arrays)
    fused = fuse_layer_norm(load(made, tmp_path))
    is_layer = axes == [1, 2]
    assert ("LayerNormalization" in {each.op_type for each in fused.nodes}) == is_layer
    x = normal(3, 5, 6, seed=2)
    np.testing.assert_allclose(
        netweave.run(fused, {"x": x})["y"], run(made, {"x": x})[0], rtol=1e-5, atol=1e-5
    )


def test_a_mean_of_something_else_is_no_normalisation(tmp_path):
    nodes = [node("ReduceMean", "z axes", "m", keepdims=1), *FORMS["torch"][1:]]
    made = model(nodes, {"x": ["N", 5, 6], "z": ["N", 5, 6]}, ["y"], NUMBERS)
    assert "LayerNormalization" not in {each.op_type for each in fuse_layer_norm(load(made, tmp_path)).nodes}


def test_a_variance_that_is_given_back_stays(tmp_path):
    made = model(FORMS["torch"], {"x": ["N", 5, 6]}, ["y", "v"], NUMBERS)
    fused = fuse_layer_norm(load(made, tmp_path))
    assert {"LayerNormalization", "ReduceMean"} <= {each.op_type for each in fused.nodes}
    x = normal(3, 5, 6)
    for found, expected in zip(netweave.run(fused, {"x": x}).values(), run(made, {"x": x}), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
