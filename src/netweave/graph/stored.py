"""Stored graphs, and stored arrays alone as a Graph: layers with parameters and no nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.graph.graph import Graph
from netweave.graph.layers import Layer, LayerTable, Origin
from netweave.graph.opset import OPSET
from netweave.graph.parameters import (
    Parameter,
    apply_layout,
    drawn,
    parameter_key,
    parameter_layout,
    tag_parameter,
)


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


ROLES = {
    "weight": ("weight", "weights", "kernel", "w", "depthwise_kernel", "pointwise_kernel"),
    "bias": ("bias", "biases", "b"),
    "slope": ("alpha", "slope", "prelu"),
    "gamma": ("gamma", "scale"),
    "beta": ("beta", "offset", "shift"),
    "mean": ("mean", "running_mean", "moving_mean"),
    "variance": ("variance", "var", "running_var", "moving_variance", "moving_var"),
}
"""Roles of arrays, each with the last words of the names that it commonly has."""

_ROLE_OF = {word: role for role, words in ROLES.items() for word in words}

_LAST = re.compile(r"(?P<layer>.+)[/.:](?P<word>[^/.:]+)$")
_LAST_WORD = re.compile(
    rf"(?P<layer>.+)_(?P<word>{'|'.join(sorted(_ROLE_OF, key=len, reverse=True))})$", re.IGNORECASE
)


def _tensor(name: str, array: np.ndarray, file: str) -> ir.TensorProtocol:
    """Return an array as a tensor, whose bytes are in this machine's order."""
    try:
        return ir.Tensor(np.asarray(array, array.dtype.newbyteorder("="), order="C"), name=name)
    except TypeError:
        message = f"{name!r:.200} holds {array.dtype}, expected numbers of at most 64 bits"
        raise ReadError(message, place=file) from None


def graph_of_weights(arrays: Mapping[str, np.ndarray], *, format_name: str, file: str) -> Graph:
    """Return stored arrays as a graph without nodes: one layer for all arrays of a name but its last word.

    Args:
        arrays: The arrays by name, in the file's order.
        format_name: Name of the format that they were read from.
        file: The file, as given.

    Raises:
        ReadError: An array holds something else than numbers, or has no name.

    >>> graph = graph_of_weights({"conv1/weights": np.ones(3)}, format_name="arrays", file="net.npz")
    >>> list(graph.layers), graph.parameters["conv1/weights"].role
    (['conv1'], 'weight')
    """
    parameters: dict[str, Parameter] = {}
    values = []
    members: dict[str, list[str]] = {}
    settings: dict[str, dict[str, list[int]]] = {}
    for name, array in arrays.items():
        if array.dtype.kind not in "biufV" or (array.dtype.kind == "V" and array.dtype.names):
            raise ReadError(f"{name!r:.200} holds {array.dtype}, expected numbers", place=file)
        if not name:
            raise ReadError("holds an array without a name", place=file)
        layer, role = split_name(name)
        settings.setdefault(layer, {})[name[len(layer) + 1 :] or role] = list(array.shape)
        parameters[name] = Parameter(name, array.shape, role=role, trainable=role not in {"mean", "variance"})
        members.setdefault(layer, []).append(name)
        tensor = _tensor(name, array, file)
        value = ir.Value(
            name=name, shape=ir.Shape(array.shape), type=ir.TensorType(tensor.dtype), const_value=tensor
        )
        tag_parameter(value, name)
        values.append(value)
    layers = LayerTable(
        Layer(
            key=layer,
            name=layer,
            type="weights",
            settings=settings[layer],
            parameters=tuple(names),
            origin=Origin(file),
        )
        for layer, names in members.items()
    )
    graph = ir.Graph([], [], nodes=[], initializers=values, opset_imports={"": OPSET}, name=file)
    return Graph(ir.Model(graph, ir_version=10), layers, parameters, format=format_name, files=(file,))


def split_name(name: str) -> tuple[str, str]:
    """Return the layer of an array and what it is for, by its name.

    >>> split_name("conv1/kernel:0"), split_name("fc_weight"), split_name("layers.0.bias")
    (('conv1', 'weight'), ('fc', 'weight'), ('layers.0', 'bias'))
    """
    plain = name.removesuffix(":0")
    match = _LAST.fullmatch(plain) or _LAST_WORD.fullmatch(plain)
    if match is None:
        return plain, _ROLE_OF.get(plain.lower(), "weight")
    return match["layer"], _ROLE_OF.get(match["word"].lower(), "weight")
