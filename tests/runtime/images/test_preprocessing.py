"""Preprocessing against the formulas of the frameworks, and its texts."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.runtime.images.preprocessing import PRESETS, parse_preprocessing

pytest.importorskip("cv2")

IMAGE = np.random.default_rng(1).integers(0, 256, (256, 256, 3)).astype(np.uint8)


def test_caffe_is_bgr_minus_the_mean_of_the_middle() -> None:
    """As caffe.io.Transformer: channels to the front, the mean of each subtracted, the scale left at 255."""
    x = PRESETS["caffe"].apply(IMAGE, 224, 224)
    middle = IMAGE[16:240, 16:240].astype(np.float32).transpose(2, 0, 1)
    wanted = middle - np.array([104, 117, 123], np.float32).reshape(3, 1, 1)
    np.testing.assert_allclose(x[0], wanted, atol=1e-5)


def test_torchvision_normalises_what_is_between_0_and_1() -> None:
    x = PRESETS["torchvision"].apply(IMAGE, 224, 224)
    mean, std = (np.array(row).reshape(3, 1, 1) for row in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    wanted = (IMAGE[16:240, 16:240].transpose(2, 0, 1) / 255 - mean) / std
    np.testing.assert_allclose(x[0], wanted, atol=1e-5)


def test_keras_tf_lies_between_minus_1_and_1() -> None:
    x = PRESETS["keras-tf"].apply(IMAGE, 256, 256)
    np.testing.assert_allclose(x[0], IMAGE.transpose(2, 0, 1) / 127.5 - 1, atol=1e-5)


def test_a_letterbox_keeps_the_proportions_and_fills_with_grey() -> None:
    wide = np.full((60, 120, 3), 255, np.uint8)
    x = PRESETS["darknet"].apply(wide, 80, 80)
    assert x.shape == (1, 3, 80, 80)
    assert (x[0, :, 20:60] == 1).all()
    assert (x[0, :, :20] == 0.5).all()
    assert (x[0, :, 60:] == 0.5).all()


def test_a_text_says_what_a_preset_says() -> None:
    text = "resize=256,crop=224,order=rgb,scale=1/255,mean=0.485;0.456;0.406,std=0.229;0.224;0.225"
    x, y = (one.apply(IMAGE, 224, 224) for one in (parse_preprocessing(text), PRESETS["torchvision"]))
    np.testing.assert_array_equal(x, y)


def test_a_preset_may_be_changed() -> None:
    assert parse_preprocessing("caffe, order=rgb,mean=1;2;3").mean == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not known; expected caffe, torchvision"),
        ("imagenet", "is not known; expected caffe"),
        ("caffe,colour=rgb", "has the setting 'colour=rgb', expected order, fit"),
        ("caffe,mean=1;x;3", "mean is '1;x;3', expected a number"),
        ("caffe,scale=1/0", "scale is '1/0', expected a number"),
        ("caffe,order=rbg", "color is 'rbg', expected rgb, bgr or gray"),
        ("caffe,mean=1;2", "mean has 2 numbers, expected 1 or 3"),
        ("caffe,std=0", "each std > 0"),
        ("caffe,scale=0", "scale is 0"),
        ("caffe,resize=-1", "expected sides >= 0"),
        ("darknet,resize=256", "no resize with a letterbox"),
        ("resize=256,crop=224", "does not say order, mean, scale"),
    ],
)
def test_a_bad_text_is_one_clear_error(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_preprocessing(text)


def test_no_more_can_be_cut_out_than_there_is() -> None:
    with pytest.raises(UsageError, match="resized to 200, and 224 x 224 pixels are cut out"):
        parse_preprocessing("caffe,resize=200").apply(IMAGE, 224, 224)
