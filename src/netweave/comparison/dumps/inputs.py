"""The inputs of a run, found among the tensors of its dump."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice, product
from math import prod

import numpy as np
import onnx_ir as ir

from netweave.comparison.layout.tensors import candidate_layouts
from netweave.errors import UsageError
from netweave.graph import Graph, known_shape
from netweave.graph.summary import value_summary

MAX_TRIED = 12
"""Choices of inputs that are tried, the likeliest first."""

Inputs = dict[str, np.ndarray]


def choose_inputs(graph: Graph, arrays: Mapping[str, np.ndarray], *, file: str) -> list[Inputs]:
    """Return choices of the inputs of a net among the tensors of a dump, the likeliest first.

    An input is taken by its name; else any tensor of its type and sizes may be it, one with ``input`` in its
    name first, in any order of axes.

    Args:
        graph: The net.
        arrays: The tensors of the dump.
        file: The dump, for messages.

    Raises:
        UsageError: No tensor fits an input; the message names all such inputs and says how to capture them.
    """
    found = {str(value.name): list(_candidates(value, arrays)) for value in graph.inputs}
    missing = [value for value in graph.inputs if not found[str(value.name)]]
    if missing:
        named = ", ".join(f"{value.name} ({value_summary(value)})" for value in missing)
        raise UsageError(
            f"{file}: has no tensor for the inputs {named} of {graph.name}, which a run needs; capture them "
            "as well, as netweave.capture(module) does, or add them to the file under these names"
        )
    rows = product(*found.values())
    return [dict(zip(found, row, strict=True)) for row in islice(rows, MAX_TRIED)]


def _candidates(value: ir.Value, arrays: Mapping[str, np.ndarray]) -> Iterator[np.ndarray]:
    name = str(value.name)
    exact = [key for key in arrays if key == name or key.rpartition(".")[2] == name]
    others = sorted((key for key in arrays if key not in exact), key=lambda key: "input" not in key.lower())
    kind = "f" if value.dtype is None or value.dtype.is_floating_point() else "iub"
    for key in [*exact, *([] if exact else others)]:
        x = arrays[key]
        if x.dtype.kind in kind or (kind == "f" and str(x.dtype) == "bfloat16"):
            yield from _fitted(value, x)


def _fitted(value: ir.Value, x: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array in the layouts that have the sizes of an input, its own first."""
    dtype = value.dtype.numpy() if value.dtype is not None else x.dtype
    shape = known_shape(value)
    if shape is None or _fits(x.shape, shape):
        yield x.astype(dtype)
        return
    rest = prod(size for size in shape if size)
    is_packed = x.ndim < len(shape) and rest > 0 and x.size % rest == 0
    batch = x.size // rest if is_packed else x.shape[0] if x.ndim else 1
    wanted = tuple(size or batch for size in shape) if x.ndim else ()
    if prod(wanted) == x.size:
        for change in candidate_layouts(x.shape, wanted):
            yield np.ascontiguousarray(change.apply(x)).astype(dtype)
    elif len(shape) == x.ndim and value.dtype != ir.DataType.FLOAT:
        yield x.astype(dtype)  # ids of another length: the net is read again for it


def _fits(sizes: tuple[int, ...], shape: tuple[int | None, ...]) -> bool:
    return len(sizes) == len(shape) and all(
        wanted in {None, size} or axis == 0
        for axis, (size, wanted) in enumerate(zip(sizes, shape, strict=True))
    )
