"""Layers that move elements, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from netweave.graph import known_shape
from tests.formats.caffe.nets import inputs, layer, load, normal, run, stored

X = normal(2, 4, 5, 6)
HEAD = inputs(x=X.shape)


@pytest.mark.parametrize("batch", [2, 3])
@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ("shape { dim: 0 dim: -1 }", (120,)),
        ("shape { dim: 2 dim: 120 }", (120,)),
        ("shape { dim: -1 dim: 4 dim: 30 }", (4, 30)),
        ("shape { dim: 0 dim: 2 dim: 2 dim: -1 }", (2, 2, 30)),
        ("shape { dim: 2 dim: 2 dim: -1 } axis: 1 num_axes: 1", (2, 2, 1, 5, 6)),
        ("shape { dim: 20 } axis: 1 num_axes: 2", (20, 6)),
        ("shape { dim: 0 dim: -1 } axis: -2", (4, 5, 6, 1)),  # -1 is behind the last axis
        ("shape { } axis: 2 num_axes: 0", (4, 5, 6)),
    ],
)
def test_reshape_keeps_the_batch_open(tmp_path, batch, settings, shape):
    graph = load(tmp_path, HEAD + layer("Reshape", f"reshape_param {{ {settings} }}"))
    x = normal(batch, 4, 5, 6)
    np.testing.assert_array_equal(run(graph, x=x)["y"], x.reshape(batch, *shape))


def test_reshape_takes_the_batch_apart_again(tmp_path):
    text = HEAD + layer("Reshape", "reshape_param { shape { dim: -1 dim: 30 } }", tops="rows") + layer(
        "Reshape", "reshape_param { shape { dim: 2 dim: 4 dim: 30 } }", bottoms="rows"
    )  # fmt: skip
    x = normal(3, 4, 5, 6)
    np.testing.assert_array_equal(run(load(tmp_path, text), x=x)["y"], x.reshape(3, 4, 30))


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ("", (2, 120)),
        ("axis: 2", (2, 4, 30)),
        ("axis: 1 end_axis: 2", (2, 20, 6)),
        ("axis: -1", (2, 4, 5, 6)),
        ("axis: 0", (240,)),
    ],
)
def test_flatten(tmp_path, settings, shape):
    graph = load(tmp_path, HEAD + layer("Flatten", f"flatten_param {{ {settings} }}"))
    np.testing.assert_array_equal(run(graph, x=X)["y"], X.reshape(shape))


@pytest.mark.parametrize("settings", ["axis: 2", "concat_dim: 2", "axis: -2"])
def test_concat(tmp_path, settings):
    z = normal(2, 4, 3, 6)
    text = HEAD + inputs(z=z.shape) + layer("Concat", f"concat_param {{ {settings} }}", bottoms="x z x")
    np.testing.assert_array_equal(run(load(tmp_path, text), x=X, z=z)["y"], np.concatenate([X, z, X], 2))


@pytest.mark.parametrize(
    ("settings", "tops", "parts"),
    [
        ("", "a b", np.split(X, 2, 1)),
        ("axis: 3", "a b c", np.split(X, 3, 3)),
        ("slice_dim: 1 slice_point: 1 slice_point: 3", "a b c", np.split(X, [1, 3], 1)),
        ("axis: 0 slice_point: 1", "a b", np.split(X, [1], 0)),
        ("axis: -1 slice_point: 5", "a b", np.split(X, [5], 3)),
    ],
)
def test_slice(tmp_path, settings, tops, parts):
    found = run(load(tmp_path, HEAD + layer("Slice", f"slice_param {{ {settings} }}", tops=tops)), x=X)
    for name, part in zip(tops.split(), parts, strict=True):
        np.testing.assert_array_equal(found[name], part)


@pytest.mark.parametrize(
    ("settings", "offsets"),
    [
        ("", (0, 0)),
        ("offset: 1", (1, 1)),
        ("offset: 2 offset: 1", (2, 1)),
        ("axis: -2 offset: 1 offset: 3", (1, 3)),
    ],
)
def test_crop(tmp_path, settings, offsets):
    z = normal(2, 7, 3, 2)
    graph = load(
        tmp_path, HEAD + inputs(z=z.shape) + layer("Crop", f"crop_param {{ {settings} }}", bottoms="x z")
    )
    assert known_shape(graph.values()["y"]) == (None, 4, 3, 2)
    i, j = offsets
    np.testing.assert_array_equal(run(graph, x=X, z=z)["y"], X[:, :, i : i + 3, j : j + 2])


def test_tile_split_and_silence(tmp_path):
    text = HEAD + layer("Tile", "tile_param { axis: 2 tiles: 3 }") + layer("Split", tops="p q") + layer(
        "Silence", bottoms="q", tops=""
    )  # fmt: skip
    graph = load(tmp_path, text)
    assert [value.name for value in graph.outputs] == ["p", "y"]
    found = run(graph, x=X)
    np.testing.assert_array_equal(found["y"], np.tile(X, (1, 1, 3, 1)))
    np.testing.assert_array_equal(found["p"], X)


def test_parameter_filter_and_batch_reindex(tmp_path):
    rows = np.array([1, 0, 0, 1, 1], np.float32).reshape(5, 1)
    text = (
        inputs(a=(5, 3), keep=(5, 1), order=(4,))
        + layer("Parameter", "parameter_param { shape { dim: 2 dim: 3 } }", bottoms="", tops="p")
        + layer("Filter", bottoms="a a keep", tops="f g")
        + layer("BatchReindex", bottoms="a order", tops="r")
    )
    a, order = normal(5, 3), np.array([3, 0, 0, 4])
    graph = load(tmp_path, text)
    found = run(graph, a=a, keep=rows, order=order)
    np.testing.assert_array_equal(found["f"], a[[0, 3, 4]])
    np.testing.assert_array_equal(found["g"], a[[0, 3, 4]])
    np.testing.assert_array_equal(found["r"], a[order])
    np.testing.assert_array_equal(found["p"], stored(graph)["Parameter/0"])


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            layer("Reshape", "reshape_param { shape { dim: 0 dim: 7 } }"),
            ShapeError,
            "cannot reshape 4x5x6 to 7",
        ),
        (layer("Reshape", "reshape_param { shape { dim: -1 dim: -1 } }"), ReadError, "may contain one -1"),
        (layer("Reshape", "reshape_param { axis: 5 }"), ReadError, "axes 5 to 4 are out of range for 4 axes"),
        (
            layer("Reshape", "reshape_param { shape { dim: 0 dim: 0 dim: 0 dim: 0 dim: 0 } }"),
            ReadError,
            "size 4 is 0",
        ),
        (
            layer("Flatten", "flatten_param { axis: 3 end_axis: 1 }"),
            ReadError,
            "'axis' 3 is after 'end_axis' 1",
        ),
        (
            layer("Concat", bottoms="x z"),
            ShapeError,
            r"the same shape except on axis 1, found \?x4x5x6, \?x4x3x6",
        ),
        (
            layer("Concat", "concat_param { axis: 1 concat_dim: 1 }"),
            ReadError,
            "has both 'axis' and 'concat_dim'",
        ),
        (layer("Slice", "", tops="a b c"), ShapeError, "cannot cut 4 elements of axis 1 into 3 equal slices"),
        (layer("Slice", "slice_param { slice_point: 4 }", tops="a b"), ReadError, "'slice_point' is"),
        (
            layer("Crop", "crop_param { offset: 4 }", bottoms="x z"),
            ShapeError,
            "axis 2: 3 elements from 4 on are not in 5",
        ),
        (
            layer("Crop", "crop_param { offset: 1 offset: 1 offset: 1 }", bottoms="x z"),
            ReadError,
            "one 'offset' or 2",
        ),
        (layer("Tile"), ReadError, "'tiles' is 0, expected 1 or more"),
    ],
)
def test_wrong_settings_are_named(tmp_path, text, error, message):
    with pytest.raises(error, match=rf"net.prototxt:3: layer '\w+' \(\w+\): .*{message}"):
        load(tmp_path, HEAD + inputs(z=(2, 4, 3, 6)) + text)
