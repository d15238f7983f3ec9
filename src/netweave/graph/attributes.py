"""A node's attributes as Python values, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import onnx_ir as ir

if TYPE_CHECKING:
    from collections.abc import Mapping

_LISTS = {int: ir.AttributeType.INTS, float: ir.AttributeType.FLOATS, str: ir.AttributeType.STRINGS}


def attributes_of(node: ir.Node) -> dict[str, Any]:
    """Return a node's attributes as Python values."""
    return {name: attribute.value for name, attribute in node.attributes.items()}


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
