"""Images as inputs of nets, against OpenCV and the formula written out."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from netweave.api.images import image_input
from netweave.errors import ReadError, UsageError
from netweave.graph import GraphBuilder
from netweave.runtime.images.preprocessing import Preprocessing

SETTINGS = {"color": "rgb", "fit": "stretch", "scale": 1.0, "mean": (0.0,), "std": (1.0,)}


def net(*shape, names=("data",)):
    builder = GraphBuilder("net", format="caffe", files=("net.prototxt",))
    values = [builder.input(name, shape) for name in names]
    return builder.finish([builder.add("Relu", [values[0]], outputs="y")])


@pytest.fixture
def picture(tmp_path):
    """A picture of 10 x 20 pixels that is another one in each channel."""
    pixels = np.random.default_rng(0).integers(0, 256, (10, 20, 3), np.uint8)
    cv2.imwrite(str(tmp_path / "cat.png"), pixels)
    return tmp_path / "cat.png", pixels


def test_caffes_preprocessing_is_bgr_minus_the_mean(picture):
    file, pixels = picture
    chosen = SETTINGS | {"color": "bgr", "mean": (104.0, 117.0, 123.0)}
    x = image_input(net(1, 3, 10, 20), file, Preprocessing(**chosen))["data"]
    wanted = pixels.astype(np.float32) - np.array([104, 117, 123], np.float32)
    np.testing.assert_array_equal(x, wanted.transpose(2, 0, 1)[None])
    assert x.dtype == np.float32


def test_torchvisions_preprocessing_scales_subtracts_and_divides(picture):
    file, pixels = picture
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    chosen = SETTINGS | {"scale": 1 / 255, "mean": mean, "std": std}
    x = image_input(net(1, 3, 10, 20), file, Preprocessing(**chosen))["data"]
    wanted = (pixels[:, :, ::-1] / 255 - mean) / std
    np.testing.assert_allclose(x[0].transpose(1, 2, 0), wanted, atol=1e-6)


def test_an_image_of_another_size_is_stretched_or_cropped(picture):
    file, pixels = picture
    rgb = np.ascontiguousarray(pixels[:, :, ::-1])
    stretched = image_input(net(1, 3, 8, 8), file, Preprocessing(**SETTINGS))["data"]
    wanted = cv2.resize(rgb, (8, 8), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(stretched[0].transpose(1, 2, 0), wanted)
    cropped = image_input(net(1, 3, 10, 10), file, Preprocessing(**SETTINGS | {"fit": "crop"}))["data"]
    np.testing.assert_array_equal(cropped[0].transpose(1, 2, 0), rgb[:, 5:15])


@pytest.mark.parametrize(
    ("graph", "changes", "message"),
    [
        (net(1, 3, 8, 8, names=("a", "b")), {}, "nets with one input"),
        (net(1, 64), {}, "nets with one input"),
        (net(1, 1, 8, 8), {}, "'data' has 1 channels, and an image in 'rgb' has 3"),
        (net(1, 3, None, None), {}, "height and width of the input 'data' are not known"),
        (net(1, 3, 8, 8), {"color": "hsv"}, "color is 'hsv', expected rgb, bgr or gray"),
        (net(1, 3, 8, 8), {"fit": "pad"}, "fit is 'pad', expected stretch, crop or letterbox"),
        (net(1, 3, 8, 8), {"std": (0.0,)}, "each std > 0"),
        (net(1, 3, 8, 8), {"scale": float("nan")}, "expected finite numbers"),
        (net(1, 3, 8, 8), {"mean": (1.0, 2.0)}, "mean has 2 numbers, expected 1 or 3"),
    ],
)
def test_what_does_not_fit_is_refused(picture, graph, changes, message):
    with pytest.raises(UsageError, match=message):
        image_input(graph, picture[0], Preprocessing(**SETTINGS | changes))


def test_what_is_no_image_is_refused(tmp_path):
    (tmp_path / "cat.png").write_bytes(b"not a picture")
    with pytest.raises(ReadError, match=r"cat\.png: is no image that can be decoded"):
        image_input(net(1, 3, 8, 8), tmp_path / "cat.png", Preprocessing(**SETTINGS))
