"""Elements that are chosen one by one in their own order are the value itself; NumPy says which are."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.graph import GraphBuilder
from netweave.graph.passes.scaffolding import see_through

SIZES = (2, 3, 4)


def table_of(builder, strides, sizes, offset, first):
    """The numbers of the elements, as exporters compute them; ``first`` is the size of the first axis."""
    table = builder.constant(offset, dtype=np.int64)
    for axis, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
        begin, end, step = (builder.constant(number, dtype=np.int64) for number in (0, size, 1))
        places = builder.add("Range", [begin, first if first is not None and not axis else end, step])
        steps = builder.add("Mul", [places, builder.constant(stride, dtype=np.int64)])
        others = builder.constant([other for other in range(len(sizes)) if other != axis], dtype=np.int64)
        table = builder.add("Add", [builder.add("Unsqueeze", [steps, others]), table])
    return table


def chosen(strides, *, sizes=SIZES, offset=0, table="computed"):
    """A net as exporters write ``as_strided``: all elements in a row, and a table to take them by.

    Its batch is ``open``; or all sizes are known, and the table is ``computed`` or ``stored``.
    """
    builder = GraphBuilder("net", format="onnx")
    x = builder.add("Relu", [builder.input("x", SIZES)], outputs="relu")
    first = None
    if table == "open":
        axes = builder.constant([0], dtype=np.int64)
        first = builder.add("Squeeze", [builder.add("Shape", [x], {"start": 0, "end": 1}), axes])
    else:
        x = builder.add("Reshape", [x, builder.constant(SIZES, dtype=np.int64)], outputs="known")
    row = builder.add("Reshape", [x, builder.constant([-1], dtype=np.int64)])
    if table == "stored":
        steps = [np.arange(size) * stride for size, stride in zip(sizes, strides, strict=True)]
        numbers = builder.constant(np.asarray(sum(np.ix_(*steps)) + offset, np.int64), dtype=np.int64)
    else:
        numbers = table_of(builder, strides, sizes, offset, first)
    view = builder.add("Gather", [row, numbers], {"axis": 0}, outputs="view")
    return builder.finish([builder.add("Neg", [view], outputs="y")])


def output(graph, x):
    (y,) = netweave.run(graph, {"x": x}).values()
    return -y


X = np.random.default_rng(0).standard_normal(SIZES).astype(np.float32)


@pytest.mark.parametrize("table", ["open", "computed", "stored"])
def test_the_value_as_it_was_needs_no_choice(table):
    graph = see_through(chosen((12, 4, 1), table=table))
    assert "Gather" not in {node.op_type for node in graph.nodes}
    np.testing.assert_array_equal(output(graph, X), np.maximum(X, 0))


@pytest.mark.parametrize("table", ["computed", "stored"])
@pytest.mark.parametrize(
    ("strides", "sizes", "offset"),
    [
        ((1, 4, 12), (4, 3, 2), 0),  # its axes the other way round
        ((12, 1, 3), SIZES, 0),  # the last two mixed up, of the same sizes
        ((12, 4, 0), SIZES, 0),  # the first column again and again
        ((12, 4, 1), (1, 3, 4), 12),  # the second half
    ],
)
def test_another_choice_stays_and_is_what_numpy_says(strides, sizes, offset, table):
    positive = np.maximum(X, 0).reshape(-1)
    expected = np.lib.stride_tricks.as_strided(positive[offset:], sizes, [4 * stride for stride in strides])
    graph = see_through(chosen(strides, sizes=sizes, offset=offset, table=table))
    assert "Gather" in {node.op_type for node in graph.nodes}
    np.testing.assert_array_equal(output(graph, X), expected)
