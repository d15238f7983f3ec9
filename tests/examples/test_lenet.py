"""LeNet from Caffe's files: trained on the digits, converted, and proved to be the same."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

from sklearn.datasets import load_digits

from examples.lenet import make_data
from netweave.training.data.source_names import open_named
from tests.examples import story


def test_the_digits_are_split_by_class_and_none_is_in_both():
    made = make_data.digits()
    train, test = (made[name] for name in ("train", "test"))
    assert train[0].shape == (1437, 1, 28, 28)
    assert test[0].shape == (360, 1, 28, 28)
    assert (int(train[0].min()), int(train[0].max())) == (0, 255)
    whole = Counter(load_digits().target.tolist())
    for label, count in Counter(test[1].tolist()).items():
        assert abs(count - whole[label] * 360 / 1797) < 1
    digits = {image.tobytes() for image in load_digits().images}
    both = {image.tobytes() for image in train[0]} & {image.tobytes() for image in test[0]}
    assert len(digits) - len({image.tobytes() for part in (train, test) for image in part[0]}) <= 1
    assert not both


def test_full_mnist_is_taken_where_it_is_at_hand(tmp_path):
    from netweave import pack

    random = np.random.default_rng(0)
    for name in make_data.MNIST.values():
        images = random.integers(0, 256, (5, 1, 28, 28), dtype=np.uint8)
        pack((images, np.arange(5)), tmp_path / name, kind="mnist")
    make_data.write(tmp_path, tmp_path)
    with open_named(str(tmp_path / "test_lmdb")) as records:
        assert len(records) == 5
        pixels, label = records.read(3)
    np.testing.assert_array_equal(pixels[:, :, 0], images[3, 0])
    assert label == 3


@pytest.mark.exhaustive
def test_demo_trains_converts_and_compares(tmp_path):
    """CI runs this demo by `make demo`, and the page on Caffe's solvers trains the same to this accuracy."""
    done = story.told(story.copied(tmp_path), "lenet")
    assert done.returncode == 0, done.stderr
    parts = [
        "train_lmdb: 1,437 images",
        "$ netweave train examples/lenet/solver.prototxt",
        "Iteration 600, testing (test)",
        "    accuracy = 0.9",
        "(exit status 0)",
        "$ netweave convert examples/lenet/deploy.prototxt,examples/lenet/snapshots/lenet_iter_600",
        "$ netweave compare",
        "identical",
        "(exit status 0)",
    ]
    story.assert_in_order(done.stdout, parts)
    accuracies = re.findall(r"accuracy = (\S+)\n", done.stdout)
    assert float(accuracies[-1]) >= 0.97
