"""Layers that move elements, against the loops of their sources."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import ReadError, ShapeError
from tests.formats.caffe.nets import inputs, layer, load, normal, run


def moved(folder, shape, kind, settings):
    return run(load(folder, inputs(x=shape) + layer(kind, settings)), x=normal(*shape))["y"]


def test_shuffled_channels_are_read_by_columns(tmp_path):
    """ShuffleChannelLayer::Resize_cpu: row i, column j goes to row j, column i."""
    x = normal(2, 6, 3, 4)
    found = moved(tmp_path, x.shape, "ShuffleChannel", "shuffle_channel_param { group: 2 }")
    expected = np.empty_like(x)
    for i in range(2):
        for j in range(3):
            expected[:, j * 2 + i] = x[:, i * 3 + j]
    np.testing.assert_array_equal(found, expected)


def reorg_cpu(x, stride, *, forward):
    """math_functions.cpp of Darknet's ports: one plain array, taken for C / s² x sH x sW on one side."""
    channels, height, width = x.shape
    out_c, flat = channels // (stride * stride), x.ravel()
    out = np.empty_like(flat)
    for k in range(channels):
        for j in range(height):
            for i in range(width):
                inner = i + width * (j + height * k)
                offset, c2 = divmod(k, out_c)
                w2, h2 = i * stride + offset % stride, j * stride + offset // stride
                outer = w2 + width * stride * (h2 + height * stride * c2)
                if forward:
                    out[outer] = flat[inner]
                else:
                    out[inner] = flat[outer]
    return out


@pytest.mark.parametrize("reverse", [False, True])
def test_reorg_is_that_of_the_loops(tmp_path, reverse):
    x = normal(2, 8, 4, 6)
    settings = f"reorg_param {{ stride: 2 reverse: {str(reverse).lower()} }}"
    found = moved(tmp_path, x.shape, "Reorg", settings)
    assert found.shape == ((2, 2, 8, 12) if reverse else (2, 32, 2, 3))
    for image in range(2):
        np.testing.assert_array_equal(found[image].ravel(), reorg_cpu(x[image], 2, forward=reverse))


def test_transpose_and_reverse(tmp_path):
    x = normal(2, 3, 4, 5)
    found = moved(tmp_path, x.shape, "Transpose", "transpose_param { dim: 3 dim: 0 dim: 2 dim: 1 }")
    assert found.shape == (5, 2, 4, 3)
    assert found[4, 1, 2, 0] == x[1, 0, 2, 4]
    np.testing.assert_array_equal(
        moved(tmp_path, x.shape, "Reverse", "reverse_param { axis: 2 }"), x[:, :, ::-1]
    )


@pytest.mark.parametrize(
    ("settings", "axes"),
    [
        ("", (3,)),
        ("flip_param { flip_height: true }", (2, 3)),
        ("flip_param { flip_width: false flip_height: true }", (2,)),
        ("flip_param { flip_width: false }", ()),
    ],
)
def test_flip_mirrors_the_width_unless_told_otherwise(tmp_path, settings, axes):
    x = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(moved(tmp_path, x.shape, "Flip", settings), np.flip(x, axes))


@pytest.mark.parametrize(
    ("kind", "settings", "error", "message"),
    [
        ("ShuffleChannel", "shuffle_channel_param { group: 4 }", ReadError, "must divide the 6 channels"),
        ("ShuffleChannel", "shuffle_channel_param { group: 0 }", ReadError, "'group' is 0"),
        ("Reorg", "", ReadError, "'stride' is 0, expected a number above 0"),
        ("Reorg", "reorg_param { stride: 2 }", ShapeError, "6 channels of 3x4 cannot be divided"),
        (
            "Transpose",
            "transpose_param { dim: 1 dim: 0 }",
            ReadError,
            r"'dim' is \[1, 0\], expected the axes",
        ),
        ("Reverse", "reverse_param { axis: 4 }", ReadError, "'axis' is 4, expected 0 to 3"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path, kind, settings, error, message):
    with pytest.raises(error, match=f"net.prototxt:.*{message}"):
        load(tmp_path, inputs(x=(2, 6, 3, 4)) + layer(kind, settings))


def test_flip_needs_an_image(tmp_path):
    with pytest.raises(ShapeError, match="mirrors the last two of four axes, found 2"):
        load(tmp_path, inputs(x=(2, 6)) + layer("Flip"))
