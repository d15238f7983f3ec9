"""Poolings that round up, written with padding: the same windows and the same values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from netweave.graph import GraphBuilder, attributes_of
from netweave.graph.ops.pooling import num_windows
from netweave.graph.passes import pad_rounded_windows
from netweave.runtime.backends import prepare


def pooled(op_type, size, attributes):
    builder = GraphBuilder("pool", format="onnx")
    x = builder.input("x", (1, 2, *size))
    return builder.finish([builder.add(op_type, [x], attributes, outputs="y")])


@given(st.data())
def test_windows_and_values_stay(data):
    """The windows are counted by ONNX's formula, and the values are those of ONNX Runtime's own rounding."""
    op_type = data.draw(st.sampled_from(["MaxPool", "AveragePool"]))
    size, kernel, strides = (
        [data.draw(st.integers(*span)) for _ in "hw"] for span in ((4, 9), (1, 4), (1, 5))
    )
    pads = [data.draw(st.integers(0, k // 2)) for k in kernel * 2]
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": 1}
    graph = pooled(op_type, size, attributes)
    changed = pad_rounded_windows(graph)
    after = attributes_of(changed.nodes[0])
    assert "ceil_mode" not in after
    for axis in (0, 1):
        counts = [
            num_windows(
                size[axis],
                kernel[axis],
                stride=strides[axis],
                pads=(own[axis], own[axis + 2]),
                rounding=rounding,
                any_pad=any(own),
            )
            for own, rounding in ((pads, "ceil"), (list(after["pads"]), "floor"))
        ]
        assert counts[0] == counts[1]
    x = np.random.default_rng(0).standard_normal((3, 2, *size)).astype(np.float32) - 5
    expected = prepare(graph).run({"x": x})["y"]
    np.testing.assert_allclose(prepare(changed).run({"x": x})["y"], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("size", "extra"),
    [((6, None), {}), ((6, 6), {"count_include_pad": 1})],
    ids=["an open size", "a mean that counts its padding"],
)
def test_what_padding_cannot_say_keeps_its_rule(size, extra):
    attributes = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    graph = pooled("AveragePool", size, attributes | extra)
    assert attributes_of(pad_rounded_windows(graph).nodes[0])["ceil_mode"] == 1
