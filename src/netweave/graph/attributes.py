"""A node's attributes as Python values, and back."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from netweave.graph.opset import OPSET

_LISTS = {int: ir.AttributeType.INTS, float: ir.AttributeType.FLOATS, str: ir.AttributeType.STRINGS}


def attributes_of(node: ir.Node) -> dict[str, Any]:
    """Return a node's attributes as Python values."""
    return {name: attribute.value for name, attribute in node.attributes.items()}


@lru_cache(maxsize=256)
def default_attributes(op_type: str) -> Mapping[str, Any]:
    """Return what ONNX takes for the attributes of its own operator that a node leaves out.

    >>> default_attributes("LRN")["beta"], dict(default_attributes("Relu"))
    (0.75, {})
    """
    if not onnx.defs.has(op_type, OPSET):
        return MappingProxyType({})
    values: dict[str, Any] = {}
    for name, attribute in onnx.defs.get_schema(op_type, OPSET).attributes.items():
        if attribute.default_value.type:
            value = onnx.helper.get_attribute_value(attribute.default_value)
            # the nearest decimal: 0.01 is stored as a float32
            value = float(str(np.float32(value))) if isinstance(value, float) else value
            values[name] = value.decode() if isinstance(value, bytes) else value
    return MappingProxyType(values)


def make_attributes(values: Mapping[str, Any]) -> list[ir.Attr]:
    """Return attributes made of Python values; one that is None is left out.

    A list is one of floats if any of its numbers is, and one of ints if it is empty.

    >>> make_attributes({"axis": 1, "scales": [1, 0.5], "bias": None})
    [Attr('axis', INT, 1), Attr('scales', FLOATS, (1.0, 0.5))]
    """
    return [_made(name, value) for name, value in values.items() if value is not None]


def _made(name: str, value: Any) -> ir.Attr:
    if isinstance(value, (list, tuple)):
        # Told the type, onnx-ir need not try its protocols on the list, which takes 50 microseconds.
        types = {type(item) for item in value} or {int}
        first = float if types == {int, float} else next(iter(types))
        if types <= {int, float} or types == {str}:
            return ir.convenience.convert_attribute(name, [first(item) for item in value], _LISTS[first])
    return ir.convenience.convert_attribute(name, value)
