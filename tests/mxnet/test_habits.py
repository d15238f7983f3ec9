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
