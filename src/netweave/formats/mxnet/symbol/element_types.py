"""Element types: what MXNet's operators say about them, forwards and backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.settings import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from netweave.formats.mxnet.symbol.vertex import Vertex

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
