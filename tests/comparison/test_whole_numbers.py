"""Stored whole numbers that differ are told, however little of them an output shows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import netweave
from netweave.comparison import Verdict
from tests.comparison.onnx_text import read_text


def test_one_weight_of_a_quantised_convolution_behind_a_coarse_scale(tmp_path):
    """A step of the output is so many of the weights that one of them moves hardly any value to the next."""
    generator = np.random.default_rng(2)
    weights = generator.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)
    other = weights.copy()
    other[1, 2, 0, 1] += 1
    files = []
    for name, w in (("a", weights), ("b", other)):
        arrays = {
            "s": np.float32(0.05), "z": np.uint8(128), "w": w, "ws": np.float32(0.002),
            "wz": np.int8(0), "t": np.float32(5.0),
        }  # fmt: skip
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("QLinearConv", ["q", "s", "z", "w", "ws", "wz", "t", "z"], ["c"]),
            helper.make_node("DequantizeLinear", ["c", "t", "z"], ["y"]),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", 1, ["N", 3, 8, 8])],
            [helper.make_tensor_value_info("y", 1, ["N", 4, 6, 6])],
            [numpy_helper.from_array(np.asarray(array), key) for key, array in arrays.items()],
        )
        files.append(tmp_path / f"{name}.onnx")
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), files[-1]
        )
    for nets in (files, files[::-1]):
        assert netweave.compare(*nets).verdict is not Verdict.IDENTICAL
    assert netweave.compare(files[0], files[0]).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(("c", "d"), [("3", "4"), ("1000000", "1000001")])
def test_how_often_a_loop_runs_is_told_where_it_shows_nothing(c, d, tmp_path):
    text = (
        "g (float[N,8] x) => (float[N,8] y) { n = Constant<value_int=COUNT>() t = Constant<value_int=1>() "
        "b = Cast<to=9>(t) s = Relu(x) y = Loop <body = l (int64 i, bool before, float[N,8] s) => "
        "(bool after, float[N,8] e) { e = Relu(s) z = Constant<value_int=2>() "
        "after = Less(i, z) }>(n, b, s) }"
    )
    a, b = (read_text(text.replace("COUNT", count), tmp_path, count) for count in (c, d))
    assert netweave.compare(a, b).verdict is Verdict.LATENT
    assert netweave.compare(b, a).verdict is Verdict.LATENT
