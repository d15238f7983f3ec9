"""The Graph of a symbol for fixed sizes, and the sizes of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netweave.errors import ShapeError, UsageError
from netweave.formats.mxnet.symbol import Symbol
from netweave.formats.mxnet.symbol.build import build
from netweave.formats.mxnet.symbol.symbol import cut
from netweave.formats.mxnet.symbol.vertex import Output, sorted_vertices
from netweave.graph import Graph, known_shape

CASTS = frozenset({"Cast", "cast", "amp_cast"})
"""Operators that change the type of an array and keep its sizes."""


def sized(symbol: Symbol, shapes: Mapping[str, Sequence[int]]) -> Graph:
    """Return the Graph of a symbol for fixed sizes.

    Raises:
        SourceError: Sizes do not fit, or are not known.
        UsageError: There is no variable of some name.
    """
    known = symbol.list_inputs()
    unknown = [name for name in shapes if name not in known]
    if unknown:
        raise UsageError(f"the net has no argument {unknown[0]!r}; it has: {', '.join(known)}")
    given = {name: tuple(shape) for name, shape in shapes.items()}
    try:
        return _built(symbol, given)
    except ShapeError as error:
        behind_casts = _sizes_behind_casts(symbol, given) if error.open_inputs else {}
        if not behind_casts:
            raise
    return _built(symbol, behind_casts | given)


def _built(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    return build(symbol.document(), name=symbol.name or "net", input_shapes=shapes, open_batch=False)


def _sizes_behind_casts(symbol: Symbol, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of variables that layers read through a Cast, as nets in 16 bits do with weights."""
    casts = {
        Output(vertex): vertex.inputs[0]
        for vertex in sorted_vertices(symbol.outputs)
        if vertex.op in CASTS and vertex.inputs[0].vertex.is_variable
    }
    names = {entry.vertex.name for entry in casts.values()} - shapes.keys()
    if not names:
        return {}
    sizes = shapes_of(_built(type(symbol)(cut(symbol.outputs, casts)), shapes))
    return {name: sizes[name] for name in names}


def shapes_of(graph: Graph) -> dict[str, tuple[int, ...]]:
    """Return the sizes of all variables by name."""
    sizes = {name: parameter.shape for name, parameter in graph.parameters.items()}
    for value in graph.inputs:
        shape = known_shape(value)
        if shape is None or None in shape:
            raise ShapeError(f"the sizes of the input {value.name!r} are unknown; give them when binding")
        sizes[value.name or ""] = tuple(size for size in shape if size is not None)
    return sizes
