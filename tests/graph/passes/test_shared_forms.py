"""Forms that two nets are brought into when only one of them writes it: the same values, other nodes."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder
from netweave.graph.passes.branches import cut_splits, num_splits, two_term_sums
from netweave.graph.passes.decomposition import num_behind_concats, spread_activations

X = np.random.default_rng(1).standard_normal((2, 6, 4, 5)).astype(np.float32)


def op_types(graph):
    return [node.op_type for node in graph.nodes]


def ints(builder, *numbers):
    return builder.constant(list(numbers), dtype=np.int64)


def run(graph):
    return {name: np.asarray(x) for name, x in netweave.run(graph, {"x": X}).items()}


@pytest.mark.parametrize(("sizes", "axis"), [((2, 4), 1), ((1, 2, 3), 1), ((3, 2), -1)])
def test_a_split_becomes_slices_of_the_same_elements(sizes, axis):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    names = [f"piece{i}" for i in range(len(sizes))]
    graph = builder.finish(
        builder.add_many("Split", [x, ints(builder, *sizes)], {"axis": axis}, outputs=names)
    )
    cut = cut_splits(graph)
    assert op_types(cut) == ["Slice"] * len(sizes)
    assert (num_splits(graph), num_splits(cut)) == (1, 0)
    expected = np.split(X, np.cumsum(sizes)[:-1], axis=axis)
    for name, piece in zip(names, expected, strict=True):
        np.testing.assert_array_equal(run(cut)[name], piece)


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("Relu", lambda x: np.maximum(x, 0)),
        ("LeakyRelu", lambda x: np.where(x < 0, np.float32(0.25) * x, x)),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x))),
    ],
)
def test_an_activation_behind_a_concatenation_goes_before_each_part(op_type, function):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    joined = builder.add("Concat", [x, x], {"axis": 1})
    attributes = {"alpha": 0.25} if op_type == "LeakyRelu" else {}
    graph = builder.finish([builder.add(op_type, [joined], attributes, outputs="y")])
    spread = spread_activations(graph)
    assert op_types(spread) == [op_type, op_type, "Concat"]
    assert (num_behind_concats(graph), num_behind_concats(spread)) == (1, 0)
    expected = np.concatenate([function(X), function(X)], axis=1)
    np.testing.assert_allclose(run(spread)["y"], expected, rtol=1e-6, atol=1e-6)


def test_a_concatenation_that_others_read_stays():
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    joined = builder.add("Concat", [x, x], {"axis": 1}, outputs="joined")
    graph = builder.finish([builder.add("Relu", [joined], outputs="y"), joined])
    assert op_types(spread_activations(graph)) == ["Concat", "Relu"]


@pytest.mark.parametrize(("num_terms", "op_type"), [(2, "Add"), (3, "Sum")])
def test_a_sum_of_two_terms_is_an_addition(num_terms, op_type):
    builder = GraphBuilder("net", format="onnx")
    x = builder.input("x", X.shape)
    graph = two_term_sums(builder.finish([builder.add("Sum", [x] * num_terms, outputs="y")]))
    assert op_types(graph) == [op_type]
    np.testing.assert_array_equal(run(graph)["y"], num_terms * X)
