"""The layer table and the parameters of an ONNX file that Netweave did not write: one layer per node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from netweave.graph import Layer, LayerTable, Origin, Parameter, layer_keys, set_layer_keys
from netweave.graph.parameters import tag_parameter

_NORM = {1: "gamma", 2: "beta"}
_GATES = {1: "weight", 2: "recurrent", 3: "bias", 5: "state", 6: "state", 7: "peephole"}

ROLES: dict[str, dict[int, str]] = {
    "BatchNormalization": _NORM | {3: "mean", 4: "variance"},
    "Conv": {1: "weight", 2: "bias"},
    "ConvTranspose": {1: "weight", 2: "bias"},
    "ConvInteger": {1: "weight"},
    "QLinearConv": {3: "weight", 8: "bias"},
    "QLinearMatMul": {3: "weight"},
    "MatMulInteger": {1: "weight"},
    "DequantizeLinear": {0: "weight", 1: "scale"},
    "QuantizeLinear": {0: "weight", 1: "scale"},
    "Gemm": {0: "weight", 1: "weight", 2: "bias"},
    "GroupNormalization": _NORM,
    "InstanceNormalization": _NORM,
    "LayerNormalization": _NORM,
    "PRelu": {1: "slope"},
    "GRU": _GATES,
    "LSTM": _GATES,
    "RNN": _GATES,
    "Add": {0: "bias", 1: "bias"},
    "Sub": {0: "bias", 1: "bias"},
    "Mul": {0: "scale", 1: "scale"},
    "Div": {0: "scale", 1: "scale"},
}
"""What a stored array is for, by the operator that reads it and the index of the input."""

SETTINGS: dict[str, frozenset[int]] = {
    "Clip": frozenset({1, 2}),
    "Dropout": frozenset({1, 2}),
    "Pad": frozenset({1, 2, 3}),
    "Pow": frozenset({1}),
    "Resize": frozenset({1, 2, 3}),
}
"""Inputs that say how to work and are no weights, though they are numbers with a point."""

VIEWS = frozenset({"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators behind which an array is still the same weight."""

_FLOATS = {ir.DataType.FLOAT, ir.DataType.DOUBLE, ir.DataType.FLOAT16, ir.DataType.BFLOAT16}

_STATISTICS = frozenset({"mean", "variance"})

MAX_SETTING = 4096
"""Longer texts and lists of numbers are shortened in a layer's settings."""


def make_layers(model: ir.Model, *, file: str) -> LayerTable:
    """Return one layer per node and mark each node with its own.

    Args:
        model: The model with its functions, which become layers as a whole.
        file: The file as given.
    """
    table = LayerTable()
    for node in model.graph:
        name = node.name or node.op_type
        key = table.free_key(name)
        layer = Layer(
            key=key,
            name=name,
            type=f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
            settings={attribute.name: _json(attribute) for attribute in node.attributes.values()},
            inputs=tuple(_names(value for value in node.inputs if value is not None)),
            outputs=tuple(_names(iter(node.outputs))),
            origin=Origin(file),
        )
        table.add(layer)
        set_layer_keys(node, [key])
    return table


def make_parameters(model: ir.Model, layers: LayerTable) -> dict[str, Parameter]:
    """Return one parameter for each weight, mark their initializers, and name them in the layers."""
    parameters: dict[str, Parameter] = {}
    of_layer: dict[str, list[str]] = {}
    for value in model.graph.initializers.values():
        role = role_of(value)
        if role is None or value.const_value is None or not value.name:
            continue
        shape = tuple(value.const_value.shape.numpy())
        trainable = role not in _STATISTICS
        parameters[value.name] = Parameter(value.name, shape, role=role, trainable=trainable)
        tag_parameter(value, value.name)
        for use in value.uses():
            for key in layer_keys(use.node):
                of_layer.setdefault(key, []).append(value.name)
    for key, names in of_layer.items():
        if key in layers:
            layers.add(replace(layers[key], parameters=tuple(dict.fromkeys(names))))
    return parameters


def _names(values: Iterator[ir.Value]) -> Iterator[str]:
    return (value.name for value in values if value.name and not value.is_initializer())


def role_of(value: ir.Value) -> str | None:
    """Return what an initializer is for, None if it is no weight."""
    for use in value.uses():
        node, index = use.node, use.idx
        while node.op_type in VIEWS and index == 0 and (users := list(node.outputs[0].uses())):
            node, index = users[0].node, users[0].idx
        role = ROLES.get(node.op_type, {}).get(index)
        if role is None and index not in SETTINGS.get(node.op_type, ()):
            role = "weight"
        tensor = value.const_value
        number = tensor is not None and tensor.dtype in _FLOATS
        if role and (number or (index in ROLES.get(node.op_type, {}) and "Linear" in node.op_type)):
            return role
    return None


def _json(attribute: ir.Attr) -> Any:
    """Return an attribute as a JSON value; graphs and tensors as what they are in a word."""
    value = attribute.value
    if isinstance(value, bytes):
        return value[:MAX_SETTING].decode("utf-8", errors="replace")
    if attribute.type in {ir.AttributeType.INT, ir.AttributeType.FLOAT}:
        return value
    if attribute.type == ir.AttributeType.STRING:
        return str(value)[:MAX_SETTING]
    if attribute.type in {ir.AttributeType.INTS, ir.AttributeType.FLOATS, ir.AttributeType.STRINGS}:
        return list(value)[:MAX_SETTING]
    if attribute.type == ir.AttributeType.TENSOR:
        return f"tensor {'x'.join(map(str, value.shape))} of {value.dtype.name}"
    return attribute.type.name.lower()
