"""Pooling rules against the formulas of their sources, over a sweep of geometries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder
from netweave.graph.ops.pooling import (
    ROUNDINGS,
    PoolWindows,
    average_pool,
    is_standard,
    max_pool,
    num_windows,
)
from netweave.graph.passes import specialise

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


@pytest.mark.parametrize(
    ("domain", "given", "counts"),
    [("", {}, False), ("netweave", {}, True), ("", {"count_include_pad": 1}, True),
     ("netweave", {"count_include_pad": 0}, False)],
)  # fmt: skip
def test_padding_counts_by_default_where_the_source_counts_it(domain, given, counts):
    """ONNX AveragePool-22 says 0; Caffe always counts, and MXNet does by default."""
    assert PoolWindows.of(domain, {"kernel_shape": [3], **given}).counts_padding is counts


@pytest.mark.parametrize("size", [(7, 8), (6, 5)])
def test_a_mean_keeps_what_counts_in_it_when_it_becomes_the_standard_operator(size):
    """At sizes where both round alike, the standard operator stands in; its default is the other one."""
    builder = GraphBuilder("net", format="test")
    x = builder.input("x", [1, 2, *size])
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4, "rounding": "full"}
    graph = builder.finish([builder.add("AveragePool", [x], attributes, domain="netweave")])
    array = np.random.default_rng(0).normal(size=(1, 2, *size)).astype(np.float32)
    (expected,) = average_pool([array], attributes)
    plain = specialise(graph)
    (node,) = plain.nodes
    assert node.domain == ""
    (found,) = netweave.run(plain, {"x": array}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_windows_of_each_rule_cover_their_input():
    for size, kernel, stride, pad in SWEEP:
        for rounding in ROUNDINGS:
            windows = PoolWindows([kernel], [stride], [1], [pad], [pad], rounding, counts_padding=False)
            (end,) = windows.covering_end([size])
            again = PoolWindows([kernel], [stride], [1], [pad], [end], "floor", counts_padding=False)
            assert again.counts([size]) == windows.counts([size])
            assert (windows.divisors([size], windows.counts([size])) <= kernel).all()
