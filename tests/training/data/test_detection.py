"""MXNet's augmentation for detectors: what it does to pixels and boxes."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cv2")

from netweave.errors import UsageError
from netweave.training.data.transform import Image, make_transform
from netweave.training.data.transforms.detection import CropSampler


def located(height, width):
    """Return an image that says of each pixel where it is: row, column, 0."""
    rows, columns = np.mgrid[:height, :width].astype(np.uint8)
    return np.stack([rows, columns, np.zeros_like(rows)], axis=2)


@pytest.mark.parametrize(
    "wanted",
    [
        {
            "kind": "sampled_crop",
            "probability": 1.0,
            "samplers": [CropSampler(scales=(0.3, 1.0), ratios=(0.5, 2.0), overlaps=(0.2, 1.0))],
        },
        {"kind": "random_pad", "probability": 1.0, "max_scale": 2.0, "fill": 255},
    ],
)
def test_boxes_stay_around_their_objects(wanted):
    """The pixels say where they were; the boxes must say the same of the objects that are left."""
    height, width = 120, 200
    corners = np.array([[0.1, 0.2, 0.5, 0.9], [0.55, 0.3, 0.95, 0.6]])
    moved = 0
    for seed in range(50):
        boxes = np.zeros((3, 5), np.float32)
        boxes[:2, :2], boxes[:2, 2:4] = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        boxes[:2, 4] = 7, 8
        image = Image(located(height, width), boxes)
        make_transform(wanted).change(image, np.random.default_rng(seed))
        rows, columns = image.pixels.shape[:2]
        moved += (rows, columns) != (height, width)
        known = np.argwhere(image.pixels[..., 2] == 0)
        (first_row, first_column), *_ = known
        source = image.pixels[first_row, first_column].astype(int)
        origin = np.array([source[1] - first_column, source[0] - first_row])
        size, scale = np.array([columns, rows]), np.array([width, height])
        for row in image.objects:
            low, high = row[:2] - row[2:4] / 2, row[:2] + row[2:4] / 2
            before = corners[int(row[4]) - 7] * np.tile(scale, 2)
            expected = np.concatenate([(before[:2] - origin) / size, (before[2:] - origin) / size])
            # windows end at whole pixels, and boxes do not
            np.testing.assert_allclose([*low, *high], np.clip(expected, 0, 1), atol=2.5 / min(rows, columns))
        assert len(image.objects)
    assert moved > 30


def test_an_image_without_objects_is_cut_as_well():
    image = Image(located(60, 60), np.zeros((2, 5), np.float32))
    wanted = {"kind": "sampled_crop", "probability": 1.0, "samplers": [CropSampler(scales=(0.3, 0.5))]}
    make_transform(wanted).change(image, np.random.default_rng(0))
    assert image.pixels.shape[0] < 40
    assert not len(image.objects)


def test_lightness_is_added_to_grey():
    """Grey has no hue and no saturation: its lightness is its value, to a step of rounding there and back."""
    wanted = {"kind": "hls_shift", "lightness": 40, "lightness_probability": 0.5, "hue": 30}
    changes = []
    for seed in range(40):
        image = Image(np.full((2, 2, 3), 100, np.uint8))
        make_transform(wanted).change(image, np.random.default_rng(seed))
        assert len(np.unique(image.pixels)) == 1
        changes.append(int(image.pixels[0, 0, 0]) - 100)
    assert max(map(abs, changes)) <= 41
    assert min(changes) < -10
    assert max(changes) > 10
    assert 8 <= sum(change == 0 for change in changes) <= 32


def test_contrast_multiplies():
    wanted = {"kind": "hls_shift", "contrast": 0.5, "contrast_probability": 1.0}
    pixels = np.array([[[0, 10, 40]], [[100, 200, 255]]], np.uint8)
    image = Image(pixels)
    make_transform(wanted).change(image, np.random.default_rng(2))
    factor = image.pixels[1, 0, 0] / 100
    assert factor != 1.0
    np.testing.assert_allclose(image.pixels, np.clip(pixels * factor, 0, 255), atol=2)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"kind": "hls_shift", "contrast": 1.0}, "contrast is 1, expected 0 <= contrast < 1"),
        (
            {"kind": "random_pad", "probability": 1.0, "max_scale": 0.5},
            "max_scale is 0.5, expected 1 or more",
        ),
        (
            {"kind": "sampled_crop", "probability": 1.0, "samplers": (), "keep": "half"},
            "keep is 'half', expected center or overlap",
        ),
    ],
)
def test_wrong_settings(wanted, message):
    with pytest.raises(UsageError, match=message):
        make_transform(wanted)
