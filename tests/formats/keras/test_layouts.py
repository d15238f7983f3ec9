"""Which values have their channels last in Keras."""

from __future__ import annotations

import pytest

from netweave.formats.keras.source.table import channels_last_values
from netweave.graph import GraphBuilder
from tests.graph.passes.nets import weight


@pytest.fixture
def builder():
    return GraphBuilder("net", format="onnx")


@pytest.mark.parametrize("sizes", [(7,), (7, 5), (7, 5, 3)])
def test_what_a_convolution_reads_and_makes_has_channels_last(builder, sizes):
    x = builder.input("x", ("N", 3, *sizes))
    made = builder.add("Conv", [x, weight(builder, "w", (4, 3, *[1] * len(sizes)))], outputs="c")
    graph = builder.finish([builder.add("Relu", [made], outputs="y")])
    assert channels_last_values(graph) == {"x", "c", "y"}


def test_sequences_of_words_and_matrices_are_as_they_are(builder):
    x = builder.input("x", ("N", 7, 6))
    made = builder.add("MatMul", [x, weight(builder, "w", (6, 4))], outputs="m")
    graph = builder.finish([builder.add("Softmax", [made], {"axis": -1}, outputs="y")])
    assert channels_last_values(graph) == frozenset()


def test_a_transposition_leads_from_one_order_to_the_other(builder):
    """Patches of an image as words: a convolution, its places in a row, channels behind them."""
    x = builder.input("x", ("N", 3, 8, 8))
    patches = builder.add(
        "Conv", [x, weight(builder, "w", (4, 3, 2, 2))], {"strides": [2, 2]}, outputs="patches"
    )
    row = builder.add("Reshape", [patches, builder.constant([0, 4, 16])], outputs="row")
    words = builder.add("Transpose", [row], {"perm": [0, 2, 1]}, outputs="words")
    graph = builder.finish([builder.add("MatMul", [words, weight(builder, "v", (4, 5))], outputs="y")])
    assert channels_last_values(graph) == {"x", "patches"}


def test_what_lies_between_keeps_the_order_of_its_neighbours(builder):
    x = builder.input("x", ("N", 3, 9))
    before = builder.add("Neg", [x], outputs="before")
    made = builder.add("MaxPool", [before], {"kernel_shape": [3]}, outputs="pooled")
    after = builder.add("Mul", [made, made], outputs="after")
    words = builder.input("words", ("N", 5, 2))
    beside = builder.add("MatMul", [words, weight(builder, "v", (2, 2))], outputs="b")
    graph = builder.finish([after, beside])
    assert channels_last_values(graph) == {"x", "before", "pooled", "after"}


def test_an_image_that_is_given_or_returned_has_channels_last(builder):
    x = builder.input("x", ("N", 3, 4, 4))
    graph = builder.finish([builder.add("Relu", [x], outputs="y")])
    assert channels_last_values(graph) == {"x", "y"}
