"""Sizes and element types of all variables and outputs of a symbol."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.build import build
from netweave.formats.mxnet.symbol.element_types import element_types
from netweave.formats.mxnet.symbol.vertex import auxiliaries, sorted_vertices
from netweave.graph import BATCH, known_shape
from netweave.graph import infer_shapes as infer_graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import onnx_ir as ir

    from netweave.formats.mxnet.symbol.symbol import Symbol
    from netweave.graph import Graph

Shapes = list[tuple[int | None, ...]]


def infer_shapes(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> tuple[Shapes, Shapes, Shapes]:
    """Return the sizes of arguments, outputs and auxiliary states; see ``Symbol.infer_shape``."""
    graph = sized_graph(symbol, shapes)
    inputs = {value.name: known_shape(value) or () for value in graph.inputs}

    def of(names: Iterable[str]) -> Shapes:
        return [graph.parameters[n].shape if n in graph.parameters else inputs[n] for n in names]

    outputs = [known_shape(value) or () for value in graph.outputs]
    return of(symbol.list_arguments()), outputs, of(symbol.list_auxiliary_states())


def to_graph(
    symbol: Symbol,
    shapes: Mapping[str, Sequence[int]],
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    title: str | None = None,
) -> Graph:
    """Return the Graph of a symbol, its batch open; see ``Symbol.graph``."""
    unknown = [name for name in shapes if name not in symbol.list_inputs()]
    if unknown:
        raise UsageError(
            f"unknown variable {', '.join(map(repr, unknown))}; expected one of "
            f"{', '.join(symbol.list_inputs())}"
        )
    return build(
        symbol.document(),
        name=title or symbol.name or "symbol",
        input_shapes={name: tuple(shape) for name, shape in shapes.items()},
        arrays=arrays,
        file="the arrays given" if arrays is not None else "",
    )


def sized_graph(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the Graph of a symbol with the batch a number, where it is one in ``shapes``."""
    graph = to_graph(symbol, shapes)
    axes = {value.name or "": _batch_axis(value) for value in graph.inputs}
    declared = {**graph.declared, **shapes}
    sizes = {n: declared[n][axis] for n, axis in axes.items() if axis is not None and n in declared}
    batch = next((sizes[name] for name in [*shapes, *sizes] if sizes.get(name) is not None), None)
    wanted: dict[str, list[int | str | None]] = {}
    for value in graph.inputs:
        name, axis = value.name or "", axes[value.name or ""]
        wanted[name] = [None] * len(value.shape.dims if value.shape is not None else ())
        if axis is not None:
            wanted[name][axis] = sizes.get(name) or batch
    infer_graph(graph, wanted)
    return graph


def _batch_axis(value: ir.Value) -> int | None:
    dims = value.shape.dims if value.shape is not None else ()
    places = [axis for axis, dim in enumerate(dims) if not isinstance(dim, int) and dim.value == BATCH]
    return places[0] if places else None


def infer_types(
    symbol: Symbol, types: Mapping[str, Any]
) -> tuple[list[np.dtype], list[np.dtype], list[np.dtype]]:
    """Return the element types of arguments, outputs and auxiliary states; see ``Symbol.infer_type``."""
    vertices = sorted_vertices(symbol.outputs)
    dtypes = element_types(vertices, {name: np.dtype(dtype) for name, dtype in types.items()})
    states = auxiliaries(vertices)
    variables = [vertex for vertex in vertices if vertex.is_variable]
    return (
        [dtypes[vertex, 0] for vertex in variables if vertex not in states],
        [dtypes[output] for output in symbol.outputs],
        [dtypes[vertex, 0] for vertex in variables if vertex in states],
    )
