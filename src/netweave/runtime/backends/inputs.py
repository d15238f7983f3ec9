"""Inputs of backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.errors import RunError
from netweave.graph import Graph
from netweave.graph.passes import specialise

if TYPE_CHECKING:
    from netweave.runtime.backends.runner import Runner


def check_inputs(expected: Sequence[ir.Value], given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays in the element types of the graph's inputs, contiguous.

    A size is checked where the graph knows it; a symbolic one (the batch) may be anything.

    Args:
        expected: The graph's inputs.
        given: One array for each, by name.

    Raises:
        RunError: Inputs are missing, unknown, of other shapes, or their values do not fit the type; all
            findings in one message.
    """
    names = [value.name or "" for value in expected]
    faults = [
        f"unknown input {name!r}; the net has: {_listed(expected)}" for name in given if name not in names
    ]
    arrays = {}
    for value, name in zip(expected, names, strict=True):
        if name not in given:
            faults.append(f"input {name!r} is missing, expected {described(value)}")
            continue
        try:
            arrays[name] = _fitted(value, np.asarray(given[name]))
        except ValueError as error:
            faults.append(f"input {name!r} {error}")
    if faults:
        raise RunError("\n".join(faults))
    return arrays


def described(value: ir.Value) -> str:
    """Return a value's element type and shape for a message: ``float32 (N, 3, 224, 224)``."""
    dtype = value.dtype.numpy().name if value.dtype is not None else "any type"
    if value.shape is None:
        return f"{dtype} of any shape"
    sizes = [str(dim) if isinstance(dim, int) else (dim.value or "?") for dim in value.shape]
    return f"{dtype} ({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _listed(values: Sequence[ir.Value]) -> str:
    return ", ".join(f"{value.name} {described(value)}" for value in values) or "no inputs"


def _fitted(value: ir.Value, array: np.ndarray) -> np.ndarray:
    if value.shape is not None:
        dims = value.shape.dims
        fits = len(dims) == array.ndim and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(dims, array.shape, strict=True)
        )
        if not fits:
            raise ValueError(f"has the shape {array.shape}, expected {described(value)}")
    dtype = value.dtype.numpy() if value.dtype is not None else array.dtype
    return np.asarray(_cast(array, dtype), order="C")


def _cast(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Cast between floats, from whole numbers to floats, and between whole numbers that fit."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind not in "fiub":
        raise ValueError(f"holds {array.dtype}, expected {dtype.name}")
    if dtype.kind in "iub":
        with np.errstate(invalid="ignore"):
            cast = array.astype(dtype)
        if not np.array_equal(cast, array):
            raise ValueError(f"holds {array.dtype.name} values that {dtype.name} cannot hold")
        return cast
    return array.astype(dtype)


MAX_SIZES = 4
"""Runners for the last input sizes that are kept; each holds the weights of the net."""


class SizedRunner:
    """A graph of which a backend makes one form for each size of its inputs.

    Args:
        graph: The graph; it is not changed.
        make: Makes a graph ready whose sizes are known.
    """

    def __init__(self, graph: Graph, make: Callable[[Graph], Runner]) -> None:
        self._graph = graph
        self._make = make
        self._ready: dict[tuple[tuple[int, ...], ...], Runner] = {}
        self._lock = Lock()

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return outputs and taps by value name; see ``netweave.runtime.backends.Runner``."""
        arrays = check_inputs(self._graph.inputs, inputs)
        return self.at({name: array.shape for name, array in arrays.items()}).run(arrays)

    def at(self, shapes: Mapping[str, Sequence[int]]) -> Runner:
        """Return the form for the shapes of all inputs, by name."""
        key = tuple(tuple(shapes[value.name or ""]) for value in self._graph.inputs)
        with self._lock:
            runner = self._ready.pop(key, None) or self._make(specialise(self._graph, shapes))
            self._ready[key] = runner
            if len(self._ready) > MAX_SIZES:
                del self._ready[next(iter(self._ready))]
        return runner
