"""Poolings that take the whole image, and rules of padding, each written in the ways that frameworks have."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict
from netweave.graph import GraphBuilder, Layer, Parameter
from netweave.graph.passes.windows import num_global_pools, pool_whole_images, same_pads
from tests.oracles import recipe

SIDE = 9
WHOLE = [SIDE - 2, SIDE - 2]


def net(op_type, *, dense=False, side=SIDE, open_sizes=False, **settings):
    """A convolution, a pooling, and what classifies: a convolution of one pixel, or a dense layer."""
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", (1, 3, "height", "width") if open_sizes else (1, 3, side, side))

    def stored(key, shape):
        return builder.parameter(Parameter(key, shape), recipe.weight(key, shape, "filter"))

    with builder.layer(Layer("conv", "conv", "Conv")):
        x = builder.add("Conv", [x, stored("conv", (4, 3, 3, 3))])
    with builder.layer(Layer("pool", "pool", op_type)):
        if op_type == "ReduceMean":
            x = builder.add(op_type, [x, builder.constant([2, 3], dtype=np.int64)])
        else:
            x = builder.add(op_type, [x], settings)
    with builder.layer(Layer("classify", "classify", "Conv")):
        if dense:
            rows = builder.add("Flatten", [x])
            pixels = dense * dense
            x = builder.add("Gemm", [rows, stored("fc", (5, 4 * pixels))], {"transB": 1})
        else:
            x = builder.add("Conv", [x, stored("fc", (5, 4, 1, 1))])
    return builder.finish([x])


def test_a_window_over_the_whole_image_is_a_global_pooling():
    windowed = net("AveragePool", kernel_shape=WHOLE)
    for a, b in ((net("GlobalAveragePool"), windowed), (windowed, net("GlobalAveragePool"))):
        found = netweave.compare(a, b)
        assert (found.verdict, found.findings) == (Verdict.IDENTICAL, ())
    assert netweave.compare(net("ReduceMean", dense=1), net("AveragePool", dense=1, kernel_shape=WHOLE)).equal
    found = netweave.compare(net("GlobalMaxPool"), net("MaxPool", kernel_shape=WHOLE, strides=[2, 2]))
    assert (found.verdict, found.findings) == (Verdict.IDENTICAL, ())


@pytest.mark.parametrize(
    ("op_type", "settings"),
    [("AveragePool", {"kernel_shape": [WHOLE[0] - 1] * 2}), ("MaxPool", {"kernel_shape": WHOLE})],
)
def test_another_window_or_operator_is_a_difference(op_type, settings):
    found = netweave.compare(net("GlobalAveragePool"), net(op_type, **settings))
    assert found.verdict is Verdict.DIFFERENT
    assert [finding.mismatch for finding in found.findings] == ["operator"]


def test_a_pooling_is_made_global_only_where_the_declared_image_is_one_window():
    for settings, number in (({}, 1), ({"pads": [1, 1, 1, 1]}, 0), ({"dilations": [2, 2]}, 0)):
        kernel = [4, 4] if "dilations" in settings else WHOLE
        assert num_global_pools(pool_whole_images(net("MaxPool", kernel_shape=kernel, **settings))) == number
    assert num_global_pools(pool_whole_images(net("MaxPool", kernel_shape=WHOLE, open_sizes=True))) == 0
    assert num_global_pools(net("ReduceMean")) == 1


@pytest.mark.slow
def test_a_window_over_the_image_that_an_adaptive_pooling_makes_is_a_global_pooling():
    """The port takes images of any size and scales them to one, of which its last window is the whole."""
    torch = pytest.importorskip("torch")
    nn = torch.nn
    layers = [nn.Conv2d(3, 4, 3), nn.AvgPool2d(SIDE - 2), nn.Conv2d(4, 5, 1)]
    port = nn.Sequential(nn.AdaptiveAvgPool2d(SIDE), *layers)
    found = netweave.compare(net("GlobalAveragePool"), port)
    assert "operator" not in {finding.mismatch for finding in found.findings}
    smaller = nn.Sequential(nn.AdaptiveAvgPool2d(SIDE), layers[0], nn.AvgPool2d(SIDE - 3), layers[2])
    found = netweave.compare(net("GlobalAveragePool"), smaller)
    assert "operator" in {finding.mismatch for finding in found.findings}


def test_a_step_behind_the_only_window_means_nothing():
    """The dense layer lets no other size through, so that there is one window always."""
    found = netweave.compare(
        net("AveragePool", dense=1, kernel_shape=WHOLE, strides=[1, 1]),
        net("AveragePool", dense=1, kernel_shape=WHOLE, strides=WHOLE, ceil_mode=1),
    )
    assert (found.verdict, found.findings) == (Verdict.IDENTICAL, ())


@pytest.mark.parametrize("kernel", [2, 3])
def test_same_padding_without_effect_at_this_size_is_rounding_up_at_any_size(kernel):
    """Windows of 2 are those of rounding up at every size; those of 3 begin before an image of odd size."""
    side = 12  # the convolution leaves 10, of which both make 5 by 5
    windows = {"kernel_shape": [kernel] * 2, "strides": [2, 2]}
    same = net("MaxPool", side=side, dense=5, auto_pad="SAME_UPPER", **windows)
    up = net("MaxPool", side=side, dense=5, ceil_mode=1, **windows)
    found = netweave.compare(up, same)
    begins = {same_pads([size], [kernel], strides=[2], dilations=[1], upper=True)[0] for size in range(4, 20)}
    assert (begins == {0}) == (kernel == 2)
    assert bool(found.findings) == (kernel == 3)
    assert all(finding.latent for finding in found.findings)
