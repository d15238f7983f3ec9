"""Stored graphs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.parameters import Parameter, apply_layout, drawn, parameter_key, parameter_layout

if TYPE_CHECKING:
    from netweave.graph.graph import Graph


def stored_values(graph: Graph) -> dict[str, list[ir.Value]]:
    """Return the initializers that were made from each stored array, by its key."""
    values: dict[str, list[ir.Value]] = defaultdict(list)
    for value in graph.model.graph.initializers.values():
        key = parameter_key(value)
        if key in graph.parameters:
            values[key].append(value)
    return dict(values)


def stored_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """Return the stored arrays by key; those that the graph has no initializer of are left out."""
    return {key: source_array(graph.parameters[key], values) for key, values in stored_values(graph).items()}


def complete_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """Return all stored arrays by key.

    What no node reads (the gamma of a BatchNorm that fixes it, a count of batches) is one or zero, as new.
    """
    arrays_by_key = stored_arrays(graph) | unread_arrays(graph)
    return {key: arrays_by_key[key] for key in graph.parameters}


def unread_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """Return, by key, what the source stores and no node reads, as new: see ``complete_arrays``."""
    read = stored_values(graph)
    return {key: _new(p) for key, p in graph.parameters.items() if key not in read}


def drawn_arrays(graph: Graph) -> dict[str, np.ndarray]:
    """Return drawn values by key for what training sets: what is trained, and BatchNorms' statistics."""
    return {
        key: drawn(key, p.shape, p.role).numpy()
        for key, p in graph.parameters.items()
        if p.trainable or p.role in {"mean", "variance"}
    }


def _new(parameter: Parameter) -> np.ndarray:
    ones = parameter.role in {"gamma", "variance", "count"}
    return (np.ones if ones else np.zeros)(parameter.shape, np.float32)


def source_array(parameter: Parameter, values: Sequence[ir.Value]) -> np.ndarray:
    """Return a stored array from its initializers; elements that none of them holds are zero."""
    places = np.arange(parameter.size).reshape(parameter.shape)
    flat = np.zeros(parameter.size, values_of(values[0]).dtype)
    for value in values:
        flat[apply_layout(places, parameter_layout(value))] = values_of(value)
    return flat.reshape(parameter.shape)


def values_of(value: ir.Value) -> np.ndarray:
    """Return the values of an initializer."""
    assert value.const_value is not None, f"{value.name!r} has no values"
    return value.const_value.numpy()


def with_arrays(graph: Graph, arrays: Mapping[str, np.ndarray]) -> Graph:
    """Return a graph with other stored arrays; those that are not given stay as they are.

    Args:
        graph: The graph; it is not changed.
        arrays: By key, in the layouts and shapes of the source.
    """
    result = graph.clone()
    for key, values in stored_values(result).items():
        if key in arrays:
            for value in values:
                laid = np.asarray(apply_layout(arrays[key], parameter_layout(value)), order="C")
                value.const_value = ir.Tensor(laid, name=value.name)
    for key in arrays:
        if key in result.parameters:
            # the new values are not those that the file stores in fewer bits
            result.parameters[key] = replace(
                result.parameters[key], loaded=True, initial=False, stored_format=None
            )
    return result


def as_loaded(graph: Graph) -> Graph:
    """Return a graph whose values all count as weights of its own, drawn ones and first ones as well.

    So two nets are compared value by value, where one of them is meant to hold exactly what the other draws.
    """
    result = graph.clone()
    result.parameters = {
        key: replace(parameter, loaded=True, initial=False) for key, parameter in graph.parameters.items()
    }
    return result


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The numbers of an array as its file has them: floats of 16 bits, or integers with a scale.

    ``real = (integer - zero_point) * scale``, as in ONNX DequantizeLinear.

    Attributes:
        dtype: NumPy's name of the type: ``float16``, ``bfloat16``, ``int4``, ``int8``, ``uint8``, ...
        scale: One number, or one for each index of ``axis``; none for floats.
        zero_point: As many integers, or one; none for floats.
        axis: The axis of the array, as the source lays it out, that several scales run along.
    """

    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: tuple[int, ...] = ()
    axis: int = 0
