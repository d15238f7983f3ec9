"""Upsample and Interp, against the loops of their sources and PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run

X = (2, 3, 4, 5)


def resized(folder, kind, settings, shape=X):
    return run(load(folder, inputs(x=shape) + layer(kind, settings)), x=normal(*shape))["y"]


@pytest.mark.parametrize(("settings", "factor"), [("upsample_param { scale: 3 }", 3), ("", 1)])
def test_upsample_repeats_each_element(tmp_path, settings, factor):
    expected = normal(*X).repeat(factor, axis=2).repeat(factor, axis=3)
    np.testing.assert_array_equal(resized(tmp_path, "Upsample", settings), expected)


@pytest.mark.parametrize(
    ("size", "settings"),
    [
        ((6, 8), "scale: 2"),
        ((6, 8), "scale_h: 2 scale_w: 2"),
        ((5, 7), "scale: 2 pad_out_h: true pad_out_w: true"),
        ((5, 8), "upsample_h: 5 upsample_w: 8"),
    ],
)
def test_upsample_undoes_a_maximum_pooling(tmp_path, size, settings):
    text = (
        inputs(x=(2, 3, *size))
        + layer("Pooling", "pooling_param { kernel_size: 2 stride: 2 }", tops="p places")
        + layer("Upsample", f"upsample_param {{ {settings} }}", bottoms="p places")
    )
    x = normal(2, 3, *size)
    found = run(load(tmp_path, text), x=x)["y"]
    pooled, places = functional.max_pool2d(torch.tensor(x), 2, 2, ceil_mode=True, return_indices=True)
    expected = functional.max_unpool2d(pooled, places, 2, 2, output_size=size)
    np.testing.assert_array_equal(found, expected.numpy())


@pytest.mark.parametrize(
    ("settings", "size", "cut"),
    [
        ("height: 9 width: 7", (9, 7), (0, 0)),
        ("zoom_factor: 2", (7, 9), (0, 0)),
        ("shrink_factor: 2", (2, 3), (0, 0)),
        ("shrink_factor: 2 zoom_factor: 3", (4, 7), (0, 0)),
        ("zoom_factor: 2 height: 9 width: 9", (7, 9), (0, 0)),
        ("shrink_factor: 2 zoom_factor: 3 height: 9 width: 7", (9, 7), (0, 0)),
        ("height: 6 width: 6 pad_beg: -1", (6, 6), (1, 0)),
        ("zoom_factor: 3 pad_beg: -1 pad_end: -1", (4, 7), (1, 1)),
    ],
)
def test_interp_keeps_corners_where_they_are(tmp_path, settings, size, cut):
    found = resized(tmp_path, "Interp", f"interp_param {{ {settings} }}")
    begin, end = cut
    part = torch.tensor(normal(*X))[:, :, begin : 4 - end, begin : 5 - end]
    expected = functional.interpolate(part, size, mode="bilinear", align_corners=True)
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_interp_takes_its_size_from_a_second_bottom(tmp_path):
    text = inputs(x=X, like=(2, 1, 8, 6)) + layer("Interp", bottoms="x like")
    assert run(load(tmp_path, text), x=normal(*X), like=normal(2, 1, 8, 6))["y"].shape == (2, 3, 8, 6)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Upsample", "upsample_param { scale: 0 }", "'scale' is 0, expected 1 or more"),
        ("Upsample", "upsample_param { upsample_h: 8 }", "'upsample_h' requires a second bottom"),
        ("Interp", "", "has neither 'zoom_factor' nor 'shrink_factor', nor 'height'"),
        ("Interp", "interp_param { zoom_factor: 0 }", "'zoom_factor' is 0, expected 1 or more"),
        ("Interp", "interp_param { pad_beg: 1 zoom_factor: 2 }", "expected 0 or less, since they crop"),
        ("Interp", "interp_param { pad_beg: -4 zoom_factor: 2 }", "crops 4 of 4x5 elements"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, kind, settings, message):
    with pytest.raises((ReadError, ShapeError), match=f"net.prototxt:.*{message}"):
        load(tmp_path, inputs(x=X) + layer(kind, settings))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("scale: 3 pad_out_h: true", "scale is 3, expected 2 or more, and 2 with 'pad_out_h'"),
        ("upsample_h: 2 upsample_w: 5", "2x5 elements are too few for the input of 4x5"),
    ],
)
def test_places_that_do_not_fit_are_refused(tmp_path, settings, message):
    text = inputs(x=X, m=X) + layer("Upsample", f"upsample_param {{ {settings} }}", bottoms="x m")
    with pytest.raises((ReadError, ShapeError), match=message):
        load(tmp_path, text)
