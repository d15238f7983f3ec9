"""Anchors by k-means: what it finds where clusters are known, and that no step away is better."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.errors import UsageError
from netweave.graph.ops.detection import overlaps
from netweave.training.boxes.anchors import cluster, mean_overlap, shape_overlaps


def boxes(centres, number=60, spread=0.03, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([centre * np.exp(spread * rng.standard_normal((number, 2))) for centre in centres])


def test_clusters_that_are_far_apart_are_found():
    centres = np.array([[0.05, 0.1], [0.2, 0.15], [0.3, 0.6]])
    found = cluster(boxes(centres), 3)
    np.testing.assert_allclose(found.sizes, centres, rtol=0.03)
    assert found.mean_iou > 0.94
    assert found.num_boxes == 180


def test_overlaps_of_sizes_are_those_of_boxes_about_one_centre():
    rng = np.random.default_rng(1)
    sizes, others = rng.uniform(0.1, 1, (7, 2)), rng.uniform(0.1, 1, (3, 2))
    expected = overlaps(*(np.concatenate([-s / 2, s / 2], axis=-1) for s in (sizes[:, None], others[None])))
    np.testing.assert_allclose(shape_overlaps(sizes, others), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 3, 6])
def test_it_is_at_least_as_good_as_any_sizes_of_boxes(count):
    rng = np.random.default_rng(2)
    sizes = np.exp(rng.normal(-2, 0.6, (300, 2)))
    found = cluster(sizes, count)
    guesses = [mean_overlap(sizes, sizes[rng.choice(300, count, replace=False)]) for _ in range(300)]
    assert found.mean_iou > max(guesses)
    assert found.mean_iou == pytest.approx(mean_overlap(sizes, found.sizes))
    assert (np.diff(found.sizes.prod(axis=1)) >= 0).all()


def test_the_seed_decides():
    sizes = np.exp(np.random.default_rng(3).normal(-2, 0.6, (200, 2)))
    first, again = (cluster(sizes, 5, seed=4).sizes for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_fewer_sizes_than_anchors_are_refused():
    with pytest.raises(UsageError, match="cannot find 3 anchors: boxes have 2 different sizes"):
        cluster(np.array([[0.1, 0.2], [0.1, 0.2], [0.3, 0.3]]), 3)
