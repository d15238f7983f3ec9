"""Inference of shapes and element types in MXNet's symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from netweave.errors import UnsupportedError, UsageError
from netweave.files.partial_reading import left_out_note, split_readable
from netweave.formats.mxnet.symbol.build import build
from netweave.formats.mxnet.symbol.operators import READERS
from netweave.formats.mxnet.symbol.settings import DTYPES
from netweave.formats.mxnet.symbol.vertex import Document, Vertex, auxiliaries, sorted_vertices
from netweave.graph import BATCH, Graph, known_shape
from netweave.graph import infer_shapes as infer_graph

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.symbol import Symbol


Slot = tuple["Vertex", int]

FLOAT = np.dtype(np.float32)

SET_BY_DTYPE = frozenset({
    "Cast", "cast", "amp_cast", "one_hot", "_zeros", "_ones", "_full", "_arange", "argsort", "Embedding",
})  # fmt: skip
"""Operators whose output has the type that the setting ``dtype`` says."""

LENGTHS = frozenset({"shape_array", "size_array"})
"""Operators that give sizes, as int64."""

FREE = {
    "Embedding": ("data",),
    "take": ("indices",),
    "pick": ("index",),
    "batch_take": ("indices",),
    "gather_nd": ("indices",),
    "where": ("condition",),
}
"""Inputs that may be of any type."""

NORMALISED = frozenset({"BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm"})
"""Operators whose arrays stay float32 when the data is float16."""


def element_types(vertices: Sequence[Vertex], types: Mapping[str, np.dtype]) -> dict[Slot, np.dtype]:
    """Return the type of every output of every node: the given ones, what follows, and else float32.

    Args:
        vertices: The nodes, inputs first.
        types: Of variables, by name.

    Raises:
        UsageError: There is no variable of some name.
    """
    variables = {vertex.name: vertex for vertex in vertices if vertex.is_variable}
    unknown = [name for name in types if name not in variables]
    if unknown:
        raise UsageError(f"unknown variable {unknown[0]!r}; expected one of {', '.join(variables)}")
    dtypes: dict[Slot, np.dtype] = {(variables[name], 0): dtype for name, dtype in types.items()}
    for vertex in vertices:
        if vertex.is_variable and (written := vertex.attributes.get("__dtype__")) in DTYPES:
            dtypes.setdefault((vertex, 0), np.dtype(DTYPES[written or "0"]))
    operators = [vertex for vertex in vertices if not vertex.is_variable]
    size = -1
    while size < len(dtypes):
        size = len(dtypes)
        for vertex in operators:
            _fill(vertex, dtypes)
    every = ((vertex, n) for vertex in vertices for n in range(len(vertex.output_names())))
    return {slot: dtypes.get(slot, FLOAT) for slot in every}


def _fill(vertex: Vertex, dtypes: dict[Slot, np.dtype]) -> None:
    """Enter what follows at one operator from what is known."""
    outputs: list[Slot] = [(vertex, number) for number in range(len(vertex.output_names()))]
    fixed = _fixed(vertex)
    if fixed is not None:
        dtypes.update(dict.fromkeys(outputs, fixed))
        if vertex.op == "Embedding":
            dtypes.setdefault(vertex.inputs[1], fixed)
        return
    if (
        vertex.op == "topk"
        and vertex.settings.choice("ret_typ", ("indices", "value", "both"), "indices") != "value"
    ):
        dtypes[outputs[-1]] = np.dtype(vertex.settings.dtype("dtype", "float32"))
        outputs = outputs[:-1]
    same = [*_tied(vertex), *outputs]
    known = next((dtypes[slot] for slot in same if slot in dtypes), None)
    if known is None:
        return
    for slot in same:
        dtypes.setdefault(slot, known)
    if vertex.op in NORMALISED:
        for slot in vertex.inputs[1:]:
            dtypes.setdefault(slot, FLOAT if known == np.float16 else known)


def _fixed(vertex: Vertex) -> np.dtype | None:
    if vertex.op in LENGTHS:
        return np.dtype(np.int64)
    if vertex.op in SET_BY_DTYPE:
        return np.dtype(vertex.settings.dtype("dtype", "float32"))
    return None


def _tied(vertex: Vertex) -> Iterator[Slot]:
    """Yield the inputs that have the type of the output."""
    if vertex.op in NORMALISED:
        yield vertex.inputs[0]
        return
    names = vertex.argument_names() or ("",) * len(vertex.inputs)
    for name, slot in zip(names, vertex.inputs, strict=False):
        if name not in FREE.get(vertex.op, ()):
            yield slot


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


def readable_part(document: Document) -> tuple[Document, tuple[str, ...]]:
    """Return a net without unknown operators and what needs them, and notes on what was left out.

    Its heads are those that are left, and what the left-out operators read.

    Raises:
        UnsupportedError: Nothing is left.
    """
    readable, rest = split_readable(
        document.nodes,
        is_unknown=lambda node: not node.is_variable and node.op not in READERS,
        reads=lambda node: (source for source, _ in node.inputs),
        makes=lambda node: (node,),
    )
    if not rest:
        return document, ()
    kept: set[Vertex] = {node for node in readable if not node.is_variable}
    heads = [head for head in document.heads if head.vertex in kept]
    heads += [source for node in rest for source in node.inputs if source.vertex in kept]
    if not heads:
        raise UnsupportedError(
            "no operator can be read without an unknown one before it", place=document.file
        )
    note = left_out_note([node.name for node in rest], noun="layer")
    return replace(document, heads=tuple(dict.fromkeys(heads))), (f"{document.file}: {note}",)
