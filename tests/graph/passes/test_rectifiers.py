"""Rectifiers that a quantiser took away, and what another net says they were."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder
from netweave.graph.passes.rounding import choose_rectifiers, explicit_rounding, rectifier_after
from netweave.graph.passes.rounding.layers import is_positive
from tests.graph.passes.nets import weight

SHAPE = (1, 3, 4, 4)


def convolved(builder: GraphBuilder):
    return builder.add("Conv", [builder.input("x", SHAPE), weight(builder, "w", (2, 3, 1, 1))], outputs="c")


def quantised(high: float, zero_point: int = 0):
    """A convolution whose values are held in a range up to a number, by eight bits."""
    builder = GraphBuilder("net", format="onnx")
    scale = builder.constant(np.array(high / 255, np.float32), dtype=np.float32)
    zero = builder.constant(np.array(zero_point, np.uint8), dtype=np.uint8)
    there = builder.add("QuantizeLinear", [convolved(builder), scale, zero])
    return builder.finish([builder.add("DequantizeLinear", [there, scale, zero], outputs="y")])


def rectifiers(graph) -> list[tuple[str, list[float]]]:
    return [
        (node.op_type, [float(value.const_value.numpy()) for value in node.inputs[1:]])
        for node in graph.nodes
        if node.op_type in {"Clip", "Relu"}
    ]


@pytest.mark.parametrize(
    ("high", "zero_point", "expected"),
    [(4.0, 0, [("Relu", [])]), (6.0, 0, [("Clip", [0.0, 6.0])]), (4.0, 128, [])],
)
def test_a_range_that_begins_at_zero_is_a_rectifier(high, zero_point, expected):
    assert rectifiers(explicit_rounding(quantised(high, zero_point)).graph) == expected


def other_net(op_type: str, *bounds: float):
    builder = GraphBuilder("net", format="onnx")
    stored = [builder.constant(np.array(bound, np.float32), dtype=np.float32) for bound in bounds]
    cut = builder.add(op_type, [convolved(builder), *stored], outputs="cut")
    return builder.finish([builder.add("Neg", [cut], outputs="y")])


@pytest.mark.parametrize("other", [("Relu",), ("Clip", 0.0, 6.0), ("Clip", 0.0, 3.0)])
@pytest.mark.parametrize("high", [4.0, 6.0])
def test_the_rectifier_is_the_one_that_another_net_has_there(high, other):
    graph = explicit_rounding(quantised(high)).graph
    (product,) = (node for node in other_net(*other).nodes if node.op_type == "Conv")
    choose_rectifiers(graph, lambda maker: rectifier_after(product))
    assert rectifiers(graph) == [(other[0], list(other[1:]))]
    x = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    low, top = (0.0, high) if other[0] == "Relu" else (0.0, min(high, other[2]))
    (y,) = netweave.run(graph, {"x": x}).values()
    filters = graph.model.graph.initializers["w"].const_value.numpy().reshape(2, 3)
    wanted = np.clip(np.einsum("oc,nchw->nohw", filters, x), low, top)
    assert np.abs(y - wanted).max() <= 0.51 * high / 255


def test_a_rectifier_stays_where_the_other_net_has_none():
    graph = explicit_rounding(quantised(4.0)).graph
    choose_rectifiers(graph, lambda maker: None)
    assert rectifiers(graph) == [("Relu", [])]


def test_a_rectifier_of_the_file_is_not_exchanged():
    graph = other_net("Relu")
    choose_rectifiers(graph, lambda maker: pytest.fail("asked for a rectifier that the file has"))
    assert rectifiers(graph) == [("Relu", [])]


def test_a_value_that_others_read_too_has_no_rectifier():
    builder = GraphBuilder("net", format="onnx")
    made = convolved(builder)
    graph = builder.finish(
        [builder.add("Relu", [made], outputs="y"), builder.add("Neg", [made], outputs="z")]
    )
    (product,) = (node for node in graph.nodes if node.op_type == "Conv")
    assert rectifier_after(product) is None


@pytest.mark.parametrize(
    ("second", "expected"),
    [("Relu", True), ("Neg", False), (np.float32([[[1.0]]]), True), (np.float32([[[-1.0]]]), False)],
)
@pytest.mark.parametrize("op_type", ["Add", "Concat", "Max", "Mul"])
def test_what_is_joined_is_positive_where_all_of_it_is(op_type, second, expected):
    if op_type == "Concat" and not isinstance(second, str):
        second = np.broadcast_to(second, SHAPE)
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", SHAPE)
    first = builder.add("Relu", [x])
    other = (
        builder.add(second, [x]) if isinstance(second, str) else builder.constant(second, dtype=np.float32)
    )
    joined = builder.add(op_type, [first, other], {"axis": 1} if op_type == "Concat" else {}, outputs="y")
    graph = builder.finish([joined])
    assert is_positive(graph.find(["y"])["y"]) is expected
