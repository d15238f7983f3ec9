"""Concatenations that need not be, and those that must; values are tested with all passes."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import GraphBuilder
from netweave.graph.passes import remove_concats, sum_of_parts
from tests.graph.passes.nets import weight


def op_types(graph):
    return [node.op_type for node in graph.nodes]


@pytest.fixture
def builder():
    return GraphBuilder("net", format="onnx")


def ints(builder, *numbers):
    return builder.constant(list(numbers), dtype=np.int64)


def test_one_that_only_another_reads_is_part_of_it(builder):
    x = builder.input("x", (1, 3, 4, 4))
    inner = builder.add("Concat", [builder.add("Relu", [x]), x], {"axis": 1}, outputs="inner")
    outer = builder.add("Concat", [x, inner, x], {"axis": -3}, outputs="outer")
    graph = remove_concats(builder.finish([outer]))
    assert op_types(graph) == ["Relu", "Concat"]
    assert [value.name == "x" for value in graph.nodes[1].inputs] == [True, False, True, True]
    assert "inner" not in {*graph.values(), *graph.aliases}


@pytest.mark.parametrize(
    ("axis", "twice", "given_back"), [(3, False, False), (2, True, False), (2, False, True)]
)
def test_one_along_another_axis_or_that_others_read_stays(builder, axis, twice, given_back):
    x = builder.input("x", (1, 3, 4, 4))
    inner = builder.add("Concat", [x, x], {"axis": 2}, outputs="inner")
    beside = inner if twice else builder.add("Pad", [x, ints(builder, 0, 0, 4, 0, 0, 0, 0, 0)])
    outer = builder.add("Concat", [inner, beside], {"axis": axis}, outputs="outer")
    graph = remove_concats(builder.finish([outer, inner] if given_back else [outer]))
    assert {"inner", "outer"} <= {*graph.values()}


def test_all_pieces_in_order_are_the_value_itself(builder):
    x = builder.add("Relu", [builder.input("x", (1, 6, 4, 4))], outputs="r")
    cut = builder.add_many("Split", [x, ints(builder, 2, 1, 3)], {"axis": 1}, outputs=["a", "b", "c"])
    joined = builder.add("Concat", cut, {"axis": 1}, outputs="joined")
    graph = remove_concats(builder.finish([builder.add("Neg", [joined], outputs="y")]))
    assert "Concat" not in op_types(graph)
    assert graph.find(["joined"])["joined"].name == "r"
    assert graph.nodes[-1].inputs[0].name == "r"


def test_neighbouring_pieces_are_one_larger_piece(builder):
    x = builder.input("x", (1, 6, 4, 4))
    cut = [
        builder.add("Slice", [x, ints(builder, begin), ints(builder, end), ints(builder, axis)])
        for begin, end, axis in ((1, 3, 1), (3, -1, -3), (0, 1, 1))
    ]
    graph = remove_concats(builder.finish([builder.add("Concat", cut, {"axis": 1}, outputs="y")]))
    (last,) = (node for node in graph.nodes if node.op_type == "Concat")
    assert len(last.inputs) == 2
    wide = last.inputs[0].producer()
    assert [value.const_value.numpy().item() for value in wide.inputs[1:]] == [1, 5, 1]


@pytest.mark.parametrize("step", [2, -1])
def test_pieces_with_steps_stay(builder, step):
    x = builder.input("x", (1, 6, 4, 4))
    bounds = [(0, 3), (3, 6)] if step > 0 else [(2, -7), (5, 2)]
    cut = [
        builder.add("Slice", [x, *(ints(builder, n) for n in (begin, end, 1, step))]) for begin, end in bounds
    ]
    graph = builder.finish([builder.add("Concat", cut, {"axis": 1}, outputs="y")])
    assert op_types(remove_concats(graph)) == op_types(graph)


def test_a_net_that_only_copies_its_input_still_has_its_output(builder):
    x = builder.input("x", (1, 6, 4, 4))
    graph = remove_concats(builder.finish([builder.add("Concat", [x], {"axis": 1}, outputs="y")]))
    assert [value.name for value in graph.outputs] == ["y"]


def squeeze(builder, *, width, group=1, axis=1, read_twice=False):
    """Return a graph of a convolution over a concatenation of two values of 8 channels."""
    x = builder.input("x", (1, 8, 4, 4))
    joined = builder.add("Concat", [builder.add("Relu", [x]), builder.add("Neg", [x])], {"axis": axis})
    kernel = weight(builder, "w", (width, (8 if axis == 2 else 16) // group, 1, 1))
    made = builder.add(
        "Conv", [joined, kernel, weight(builder, "b", (width,))], {"group": group}, outputs="y"
    )
    outputs = [made, builder.add("Abs", [joined], outputs="z")] if read_twice else [made]
    return builder.finish(outputs)


@pytest.mark.parametrize("axis", [1, -3])
def test_a_convolution_that_alone_reads_a_concatenation_is_a_sum(builder, axis):
    before = squeeze(builder, width=4, axis=axis)
    graph = sum_of_parts(before)
    assert op_types(graph) == ["Relu", "Neg", "Conv", "Conv", "Add"]
    assert [len(node.inputs) for node in graph.nodes[2:4]] == [3, 2], "the bias is added once"
    whole = before.nodes[-1].inputs[1].const_value.numpy()
    halves = [node.inputs[1].const_value.numpy() for node in graph.nodes[2:4]]
    np.testing.assert_array_equal(np.concatenate(halves, axis=1), whole)


@pytest.mark.parametrize(
    ("width", "settings"), [(16, {}), (4, {"group": 2}), (4, {"axis": 2}), (4, {"read_twice": True})]
)
def test_one_whose_sum_would_be_no_smaller_or_that_others_need_stays(builder, width, settings):
    graph = squeeze(builder, width=width, **settings)
    assert op_types(sum_of_parts(graph)) == op_types(graph)
