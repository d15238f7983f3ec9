"""Rules become numbers: the same values, and the numbers that the rule gives by formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.errors import ShapeError, UsageError
from netweave.graph import attributes_of, known_shape
from netweave.graph.passes import specialise
from netweave.graph.passes.windows import same_pads
from netweave.runtime.backends import prepare
from tests.graph.test_shapes import axis, geometry, one_node


def only(graph):
    (node,) = graph.nodes
    return node


@pytest.mark.parametrize("upper", [True, False])
def test_same_pads_follow_tensorflow(upper):
    """TensorFlow's rule, written as its documentation does, over sizes, kernels, strides, dilations."""
    for size in range(1, 20):
        for kernel in range(1, 6):
            for stride in range(1, 5):
                for dilation in range(1, 4):
                    reach = (kernel - 1) * dilation + 1
                    along = max(reach - (size % stride or stride), 0)
                    begin = along // 2
                    expected = [begin, along - begin] if upper else [along - begin, begin]
                    found = same_pads([size], [kernel], strides=[stride], dilations=[dilation], upper=upper)
                    assert found == expected


@settings(deadline=None)
@given(
    axes=st.lists(axis, min_size=1, max_size=3),
    op_type=st.sampled_from(["Conv", "MaxPool", "AveragePool"]),
    auto_pad=st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID"]),
)
def test_auto_pad_gives_the_same_values(axes, op_type, auto_pad):
    """By ONNX Runtime, which has the rule, where it takes it: not dilated, window no smaller than step."""
    axes = [a | {"dilation": 1, "stride": min(a["stride"], a["kernel"])} for a in axes]
    attributes = geometry(axes, auto_pad=auto_pad)
    x = (2, 3, *(max(a["size"], a["kernel"]) for a in axes))
    graph = one_node(
        op_type, [x, *([(4, 3, *attributes["kernel_shape"])] if op_type == "Conv" else [])], attributes
    )
    explicit = specialise(graph)
    assert "auto_pad" not in attributes_of(only(explicit))
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(known_shape(v)).astype(np.float32) for v in graph.inputs}
    np.testing.assert_array_equal(prepare(explicit).run(feeds)["y"], prepare(graph).run(feeds)["y"])


@settings(deadline=None)
@given(axes=st.lists(axis, min_size=1, max_size=2), upper=st.booleans(), explicit_size=st.booleans())
def test_a_deconvolution_gives_the_same_values(axes, upper, explicit_size):
    axes = [a | {"dilation": 1, "kernel": max(a["kernel"], a["stride"])} for a in axes]
    attributes = geometry(axes, auto_pad="SAME_UPPER" if upper else "SAME_LOWER")
    if explicit_size:
        attributes["output_shape"] = [a["size"] * a["stride"] for a in axes]
    shapes = [(2, 3, *(a["size"] for a in axes)), (3, 2, *attributes["kernel_shape"])]
    graph = one_node("ConvTranspose", shapes, attributes)
    explicit = specialise(graph)
    assert not {"auto_pad", "output_shape"} & set(attributes_of(only(explicit)))
    rng = np.random.default_rng(0)
    feeds = {v.name: rng.standard_normal(known_shape(v)).astype(np.float32) for v in graph.inputs}
    np.testing.assert_array_equal(prepare(explicit).run(feeds)["y"], prepare(graph).run(feeds)["y"])


def caffe_pool(op_type="MaxPool"):
    """Three wide, steps of four, no padding: Caffe keeps a window that starts behind the image."""
    attributes = {"kernel_shape": [3, 3], "strides": [4, 4], "pads": [0] * 4, "rounding": "caffe"}
    return one_node(op_type, [("N", 2, None, None)], attributes, domain="netweave")


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("size", "domain", "ceil_mode"),
    [(7, "", 0), (9, "", 1), (8, "netweave", None), (10, "", 1)],
)
def test_a_pooling_becomes_standard_where_its_windows_are(op_type, size, domain, ceil_mode):
    graph = caffe_pool(op_type)
    explicit = specialise(graph, {"x0": (None, None, size, size)})
    assert only(explicit).domain == domain
    assert attributes_of(only(explicit)).get("ceil_mode") == ceil_mode
    x = np.random.default_rng(0).standard_normal((2, 2, size, size)).astype(np.float32)
    expected = prepare(graph).run({"x0": x})["y"]
    np.testing.assert_allclose(prepare(explicit).run({"x0": x})["y"], expected, rtol=1e-5, atol=1e-6)


def test_what_is_still_open_stays_a_rule():
    graph = one_node("Conv", [("N", 3, None, 9), (4, 3, 3, 3)], {"auto_pad": "SAME_UPPER"})
    assert attributes_of(only(specialise(graph)))["auto_pad"] == "SAME_UPPER"
    assert only(specialise(caffe_pool())).domain == "netweave"
    graph = one_node("MaxPool", [("N", 3, 9, 9)], {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
    assert attributes_of(only(specialise(graph)))["ceil_mode"] == 1


def test_same_that_onnx_runtime_refuses_runs():
    """Dilated, and with windows smaller than their steps; against the same with pads by hand."""
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 9)).astype(np.float32)
    w = np.random.default_rng(1).standard_normal((4, 3, 3, 3)).astype(np.float32)
    rule = {"auto_pad": "SAME_UPPER", "dilations": [3, 3], "strides": [2, 2]}
    dilated = one_node("Conv", [("N", 3, None, None), (4, 3, 3, 3)], rule)
    runner = prepare(dilated)
    for size in (8, 7, 8, 5, 6, 4, 8):
        pads = [3, 3, 3, 3] if size % 2 else [2, 3, 3, 3]
        by_hand = one_node("Conv", [x.shape, w.shape], {"pads": pads, "dilations": [3, 3], "strides": [2, 2]})
        by_hand.inputs[0].shape = None
        image = x[:, :, :size]
        found = runner.run({"x0": image, "x1": w})["y"]
        np.testing.assert_array_equal(found, prepare(by_hand).run({"x0": image, "x1": w})["y"])
    rule = {"auto_pad": "SAME_UPPER", "kernel_shape": [1, 1], "strides": [2, 2]}
    found = prepare(one_node("MaxPool", [("N", 3, None, None)], rule)).run({"x0": x})["y"]
    np.testing.assert_array_equal(found, x[:, :, ::2, ::2])


def test_sizes_that_do_not_fit_are_refused():
    graph = one_node("Conv", [("N", 3, None, None), (4, 3, 3, 3)])
    with pytest.raises(ShapeError, match="a window of 3 does not fit in 2 elements"):
        specialise(graph, {"x0": (1, 3, 2, 9)})
    with pytest.raises(UsageError, match="no input 'data'"):
        specialise(graph, {"data": (1, 3, 9, 9)})
    assert known_shape(graph.inputs[0]) == (None, 3, None, None)
