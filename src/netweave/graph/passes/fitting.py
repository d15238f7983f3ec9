"""Input sizes that fit a net whose height and width are open, but whose matrices are not.

A net with fully connected layers over an image says its size only through the rows of their weights.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from netweave.errors import ShapeError
from netweave.graph import BATCH, infer_shapes, known_shape
from netweave.graph.passes.extract import Extractor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from netweave.graph import Graph

LARGEST_SIZE = 4096
"""Larger sizes are not looked at."""


def open_shapes(graph: Graph) -> dict[str, tuple[int | str | None, ...]]:
    """Return the shapes of the inputs that have open sizes besides the batch; None stands for those."""
    shapes = {}
    for value in graph.inputs:
        dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape or ()]
        shape = tuple(dim if isinstance(dim, int) or dim == BATCH else None for dim in dims)
        if None in shape:
            shapes[value.name or ""] = shape
    return shapes


def fitting_sizes(graph: Graph) -> range | None:
    """Return the sizes that all open sizes of the inputs may have together, the batch apart.

    Follows the first matrix that asks for a size; several sizes are usual, since strides round. None if no
    matrix asks for one: then any will do that the windows fit in.
    """
    asked = _first_open_matrix(graph)
    shapes = open_shapes(graph)
    if asked is None or not shapes:
        return None
    name, wanted = asked
    inputs = [value.name or "" for value in graph.inputs]
    prefix = Extractor(graph).extract(inputs=inputs, outputs=[name])

    def columns(size: int) -> int:
        """Sizes too small for a window have none, so that columns never fall as sizes rise."""
        if not _fits(prefix, shapes, size):
            return 0
        return (known_shape(prefix.outputs[0]) or (None,))[-1] or 0

    sizes = range(1, LARGEST_SIZE + 1)
    first, last = bisect_left(sizes, wanted, key=columns), bisect_right(sizes, wanted, key=columns)
    return sizes[first:last]


def likely_size(graph: Graph) -> int | None:
    """Return the size that a net with open sizes was most likely made for; None if it takes any, or none.

    Of the sizes that fit it is the smallest multiple of 8, or of 4, or of 2: people cut images so.
    """
    sizes = fitting_sizes(graph) or range(0)
    shapes, copy = open_shapes(graph), graph.clone()
    ordered = sorted(sizes, key=lambda size: (-min(size & -size, 8), size))
    return next((size for size in ordered if _fits(copy, shapes, size)), None)


def _first_open_matrix(graph: Graph) -> tuple[str, int] | None:
    """Return the first value of open columns that meets a matrix, and the columns that it must have."""
    for node in graph.nodes:
        if node.op_type not in {"Gemm", "MatMul"} or node.domain:
            continue
        data, weight = (known_shape(value) for value in node.inputs[:2])
        transposed = "transB" in node.attributes and node.attributes["transB"].as_int() == 1
        rows = weight[1 if transposed else 0] if weight is not None and len(weight) == 2 else None
        if rows is not None and data is not None and len(data) == 2 and data[1] is None:
            return node.inputs[0].name or "", rows  # type: ignore[union-attr]  # its shape is known, so it is there
    return None


def _fits(graph: Graph, shapes: Mapping[str, tuple[int | str | None, ...]], size: int) -> bool:
    filled = {name: [size if dim is None else dim for dim in shape] for name, shape in shapes.items()}
    try:
        infer_shapes(graph, filled)
    except ShapeError:
        return False
    return True
