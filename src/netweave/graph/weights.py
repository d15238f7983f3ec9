"""Stored arrays alone, without a net that they belong to, as a Graph: layers with parameters and no nodes."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError
from netweave.graph.graph import Graph
from netweave.graph.layers import Layer, LayerTable, Origin
from netweave.graph.opset import OPSET
from netweave.graph.parameters import Parameter, tag_parameter

ROLES = {
    "weight": ("weight", "weights", "kernel", "w", "depthwise_kernel", "pointwise_kernel"),
    "bias": ("bias", "biases", "b"),
    "slope": ("alpha", "slope", "prelu"),
    "gamma": ("gamma", "scale"),
    "beta": ("beta", "offset", "shift"),
    "mean": ("mean", "running_mean", "moving_mean"),
    "variance": ("variance", "var", "running_var", "moving_variance", "moving_var"),
}
"""What an array is for, by the last word of its name in common use; to add a word, add it to its row."""

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
