"""What other people's scripts do, against MXNet 1.9.1 (``tests/oracles/mxnet_habits.py``)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave.mxnet as mx
from netweave.errors import ReadError, UnsupportedError, UsageError
from tests.oracles import mxnet_habits

GOLDEN = np.load(Path(__file__).parents[1] / "golden" / "mxnet_habits.npz")


@pytest.mark.parametrize("program", mxnet_habits.PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_finds_what_it_finds_under_mxnet(program):
    found = program(mx)
    prefix = f"{program.__name__}/"
    assert {prefix + key for key in found} == {key for key in GOLDEN.files if key.startswith(prefix)}
    for key, array in found.items():
        wanted = GOLDEN[prefix + key]
        if wanted.dtype.kind == "U":
            assert list(array) == list(wanted), key
        elif wanted.dtype.kind in "iu":
            np.testing.assert_array_equal(array, wanted, err_msg=key)
        else:
            scale = max(1e-3, float(np.abs(wanted).max()))
            np.testing.assert_allclose(array, wanted, rtol=0, atol=2e-6 * scale, err_msg=key)


def test_what_is_drawn_for_a_picture():
    """Halves are flipped, windows have the areas and shapes that were asked for."""
    transforms = mx.gluon.data.vision.transforms
    mx.random.seed(3)
    pixels = np.arange(4 * 6 * 3).reshape(4, 6, 3)
    x = mx.nd.array(pixels, dtype="uint8")
    for flip, axis in ((transforms.RandomFlipLeftRight(), 1), (transforms.RandomFlipTopBottom(), 0)):
        made = [flip(x).asnumpy() for _ in range(400)]
        flipped = [np.array_equal(one, np.flip(pixels, axis)) for one in made]
        assert all(np.array_equal(one, pixels) or turned for one, turned in zip(made, flipped, strict=True))
        assert 160 < sum(flipped) < 240
    large = mx.nd.array(np.zeros((40, 60, 3)), dtype="uint8")
    for _ in range(200):
        _, (left, top, width, height) = mx.image.random_size_crop(large, (8, 8), (0.1, 0.5), (0.5, 2.0))
        assert 0 <= left <= 60 - width
        assert 0 <= top <= 40 - height
        assert 0.08 < width * height / 2400 < 0.53
        assert 0.45 < width / height < 2.2
    assert transforms.RandomResizedCrop(12)(large).shape == (12, 12, 3)
    jittered = transforms.RandomColorJitter(0.4, 0.4, 0.4)(mx.nd.array(pixels))
    assert jittered.shape == (4, 6, 3)
    applied = [transforms.RandomApply(transforms.Cast("float16"), 0.25)(x).dtype for _ in range(400)]
    assert 60 < sum(np.dtype(one) == np.float16 for one in applied) < 140
    with pytest.raises(UnsupportedError, match="hue of RandomColorJitter is not supported"):
        transforms.RandomColorJitter(hue=0.1)


def test_cifar_is_read_from_its_files(tmp_path):
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 10, (7, 3073), dtype=np.uint8)
    for number in range(1, 6):
        (tmp_path / f"data_batch_{number}.bin").write_bytes(rows.tobytes())
    images = mx.gluon.data.vision.CIFAR10(str(tmp_path))
    assert len(images) == 35
    pixels, label = images[8]
    np.testing.assert_array_equal(pixels.asnumpy(), rows[1, 1:].reshape(3, 32, 32).transpose(1, 2, 0))
    assert label == rows[1, 0]
    (tmp_path / "test.bin").write_bytes(generator.integers(0, 10, (3, 3074), dtype=np.uint8).tobytes())
    fine, coarse = (
        mx.gluon.data.vision.CIFAR100(str(tmp_path), fine_label=fine, train=False) for fine in (True, False)
    )
    rows = np.frombuffer((tmp_path / "test.bin").read_bytes(), np.uint8).reshape(3, -1)
    assert [one[1] for one in fine] == list(rows[:, 1])
    assert [one[1] for one in coarse] == list(rows[:, 0])
    with pytest.raises(UsageError, match=r"test_batch\.bin is not there, and nothing is downloaded here"):
        mx.gluon.data.vision.CIFAR10(str(tmp_path), train=False)
    (tmp_path / "test_batch.bin").write_bytes(b"abc")
    with pytest.raises(ReadError, match="has 3 bytes, expected records of 3073; is it cut off"):
        mx.gluon.data.vision.CIFAR10(str(tmp_path), train=False)


def test_augmenters_that_draw_stay_within_their_bounds():
    mx.random.seed(5)
    augmenters = mx.image.CreateAugmenter(
        (3, 8, 8), resize=12, rand_crop=True, rand_resize=True, rand_mirror=True, brightness=0.5, contrast=0.5
    )
    assert [type(one).__name__ for one in augmenters] == [
        "ResizeAug", "RandomSizedCropAug", "HorizontalFlipAug", "CastAug", "RandomOrderAug"
    ]  # fmt: skip
    x = mx.nd.array(np.random.default_rng(0).integers(0, 256, (20, 30, 3)), dtype="uint8")
    for one in augmenters:
        x = one(x)
    assert x.shape == (8, 8, 3)
    ones = mx.nd.ones((4, 4, 3))
    factors = [float(mx.image.BrightnessJitterAug(0.25)(ones).asnumpy()[0, 0, 0]) for _ in range(200)]
    assert min(factors) > 0.74
    assert max(factors) < 1.26
    assert max(factors) - min(factors) > 0.4
    for kind in ("ContrastJitterAug", "SaturationJitterAug"):  # a grey picture has nothing to change
        np.testing.assert_allclose(getattr(mx.image, kind)(0.5)(ones).asnumpy(), 1, rtol=1e-5)


def test_what_is_wrong_with_an_image_iterator_is_named(tmp_path):
    with pytest.raises(UsageError, match="hue is not supported; of jitters there are brightness, contrast"):
        mx.image.CreateAugmenter((3, 8, 8), hue=0.1)
    with pytest.raises(UsageError, match="reads path_imgrec, path_imglist or imglist; none is given"):
        mx.image.ImageIter(2, (3, 8, 8))
    with pytest.raises(UsageError, match="last_batch_handle is 'roll_over', expected 'pad' or 'discard'"):
        mx.image.ImageIter(2, (3, 8, 8), imglist=[], last_batch_handle="roll_over")
    (tmp_path / "a.lst").write_text("zero\tone\ta.png\n")
    with pytest.raises(ReadError, match=r"a\.lst: is no list of images: number, labels and file, with tabs"):
        mx.image.ImageIter(2, (3, 8, 8), path_imglist=str(tmp_path / "a.lst"))
    import cv2

    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((9, 9, 3), np.uint8))
    batches = mx.image.ImageIter(
        1, (3, 8, 8), imglist=[[0.0, "a.png"]], path_root=str(tmp_path), aug_list=[mx.image.CastAug()]
    )
    with pytest.raises(
        UsageError, match=r"an image has the shape \(3, 9, 9\) in the end, expected \(3, 8, 8\)"
    ):
        batches.next()
