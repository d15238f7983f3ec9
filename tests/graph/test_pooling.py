"""Pooling rules against the formulas of their sources, over a sweep of geometries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from netweave.graph.ops.pooling import is_standard, max_pool, num_windows

SWEEP = [
    (size, kernel, stride, pad)
    for size, kernel, stride, pad in itertools.product(range(3, 15), (1, 2, 3, 5), (1, 2, 3, 4), (0, 1, 2))
    if pad < kernel <= size + 2 * pad
]


def caffe_windows(size: int, kernel: int, stride: int, pad: int) -> int:
    """pooling_layer.cpp, PoolingLayer::Reshape."""
    count = math.ceil((size + 2 * pad - kernel) / stride) + 1
    if pad and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def full_windows(size: int, kernel: int, stride: int, pad: int) -> int:
    """pooling-inl.h, pooling_convention=full."""
    return 1 + math.ceil((size + 2 * pad - kernel) / stride)


@pytest.mark.parametrize(("rounding", "formula"), [("caffe", caffe_windows), ("full", full_windows)])
def test_windows_follow_the_source(rounding, formula):
    for size, kernel, stride, pad in SWEEP:
        found = num_windows(size, kernel, stride=stride, pads=(pad, pad), rounding=rounding, any_pad=pad > 0)
        assert found == formula(size, kernel, stride, pad), (size, kernel, stride, pad)


@pytest.mark.parametrize("rounding", ["caffe", "full"])
def test_standard_rules_have_onnx_windows_for_every_size(rounding):
    for size, kernel, stride, pad in SWEEP:
        if is_standard([kernel], strides=[stride], pads=[pad, pad], rounding=rounding):
            ours, onnx = (
                num_windows(size, kernel, stride=stride, pads=(pad, pad), rounding=r, any_pad=pad > 0)
                for r in (rounding, "ceil")
            )
            assert ours == onnx, (size, kernel, stride, pad)


def test_empty_window_gives_the_lowest_float():
    x = np.zeros((1, 1, 5, 5), np.float32)
    attributes = {"kernel_shape": [1, 1], "strides": [3, 3], "pads": [0] * 4, "rounding": "caffe"}
    (y,) = max_pool([x], attributes)
    assert y.shape == (1, 1, 3, 3)
    assert y[0, 0, 2, 2] == np.finfo(np.float32).min
