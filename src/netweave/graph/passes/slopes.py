"""A rectifier with learned slopes, which TensorFlow has no operator for, put together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.graph.parameters import source_keys, tag_sources
from netweave.graph.passes.rewrite import has_one_reader

if TYPE_CHECKING:
    from netweave.graph.passes.rewrite import Rewriter


def join_slopes(rewriter: Rewriter, add: ir.Node) -> bool:
    """Make one PRelu of ``relu(x) + c * relu(-x)`` with stored ``c``, whose slopes are ``-c``.

    Returns:
        Whether the sum was one; it is gone then.
    """
    for right, left in (add.inputs, reversed(add.inputs)):
        positive, product = _maker(right, "Relu"), _maker(left, "Mul")
        factor, negative = _factor(product)
        turned = _maker(negative.inputs[0], "Neg") if negative is not None else None
        if positive is None or product is None or factor is None or negative is None or turned is None:
            continue
        if turned.inputs[0] is positive.inputs[0] and factor.const_value is not None:
            values = np.negative(factor.const_value.numpy())
            slopes = rewriter.initializer(ir.Tensor(values), f"{add.name}/slopes")
            tag_sources(slopes, source_keys(factor))
            nodes = [positive, turned, negative, product, add]
            rewriter.replace(nodes, "PRelu", [positive.inputs[0], slopes], {})
            return True
    return False


def _maker(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """Return the node that makes a value, if it is of this type and nothing else reads it."""
    node = value.producer() if value is not None else None
    if value is None or node is None or node.domain or node.op_type != op_type or not has_one_reader(value):
        return None
    return node


def _factor(product: ir.Node | None) -> tuple[ir.Value | None, ir.Node | None]:
    """Return the stored factor of a product and the rectifier that makes the other one."""
    if product is None:
        return None, None
    first, second = product.inputs
    stored, other = (
        (first, second) if first is not None and first.const_value is not None else (second, first)
    )
    is_stored = stored is not None and stored.const_value is not None
    return (stored, _maker(other, "Relu")) if is_stored else (None, None)
