"""Input sizes that fit the matrices of a net whose height and width are open."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph import GraphBuilder
from netweave.graph.passes.rewriting import fitting_sizes, likely_size


def image_net(*, stride, matrix_rows, channels=2, kernel=3):
    """A convolution, and a matrix over what it makes."""
    builder = GraphBuilder("net", format="test")
    x = builder.input("data", (None, 1, None, None))
    filters = builder.derived(np.ones((channels, 1, kernel, kernel), np.float32), name="filters")
    y = builder.add("Conv", [x, filters], {"strides": [stride, stride]})
    y = builder.add("Flatten", [y], {"axis": 1})
    weight = builder.derived(np.ones((5, matrix_rows), np.float32), name="weight")
    return builder.finish([builder.add("Gemm", [y, weight], {"transB": 1})])


@pytest.mark.parametrize("stride", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [3, 8, 17, 100])
def test_sizes_are_those_with_as_many_windows(stride, size):
    """floor((size - 3) / stride) + 1 windows along each axis."""
    windows = (size - 3) // stride + 1
    found = fitting_sizes(image_net(stride=stride, matrix_rows=2 * windows**2))
    assert list(found) == [s for s in range(3, 200) if (s - 3) // stride + 1 == windows]


def test_no_size_fits_a_matrix_of_other_rows():
    graph = image_net(stride=1, matrix_rows=7)
    assert len(fitting_sizes(graph)) == 0
    assert likely_size(graph) is None


def test_the_likely_size_is_round():
    assert likely_size(image_net(stride=4, matrix_rows=2 * 6 * 6)) == 24


def test_the_graph_stays_open():
    graph = image_net(stride=4, matrix_rows=2 * 6 * 6)
    likely_size(graph)
    assert str(graph.inputs[0].shape) == "[N,1,data_2,data_3]"
    assert fitting_sizes(graph) == range(23, 27)


def test_a_net_of_windows_only_takes_any_size():
    builder = GraphBuilder("net", format="test")
    x = builder.input("data", (None, 1, None, None))
    graph = builder.finish([builder.add("Relu", [x])])
    assert fitting_sizes(graph) is None
    assert likely_size(graph) is None
