"""Convolutions whose backward also goes back through the Relu in front of them.

A convolution and the Relu that made its input both keep that input: one for the gradient of its filters, the
other for its sign. Where nobody else reads it, backward takes the gradient of the filters first, notes the
signs in a byte each, and frees the input before it allocates the gradient of the input. That is the moment at
which the first layers of a net need the most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import attributes_of, gradient_factors, known_shape
from netweave.runtime.memory_plan.behaviour import is_product, pixel_strides

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import onnx_ir as ir

STANDARD = {"", "ai.onnx"}


def masked_convolutions(
    nodes: Iterable[ir.Node], backward: Collection[ir.Node], wanted: Collection[ir.Value]
) -> dict[ir.Node, ir.Node]:
    """Return the convolutions that can go back through the Relu in front of them, with that Relu.

    Args:
        nodes: Those that run by themselves.
        backward: Those that a gradient flows through.
        wanted: Values that must keep what they hold.
    """
    pairs = {}
    own = set(nodes)
    for conv in own:
        value = conv.inputs[0] if conv.inputs else None
        relu = value.producer() if value is not None else None
        if value is None or relu is None or not {conv, relu} <= own.intersection(backward):
            continue
        if len(value.uses()) == 1 and value not in wanted and _is_relu(relu) and _is_convolution(conv):
            pairs[conv] = relu
    return pairs


def _is_relu(node: ir.Node) -> bool:
    return node.op_type == "Relu" and node.domain in STANDARD and not gradient_factors(node)


def _is_convolution(node: ir.Node) -> bool:
    """Return whether torch computes a node by one convolution over images, without a padded copy."""
    if node.op_type != "Conv" or node.domain not in STANDARD or gradient_factors(node):
        return False
    attributes, shape = attributes_of(node), known_shape(node.inputs[1])
    pads = list(attributes.get("pads") or [0] * 4)
    symmetric = pads[:2] == pads[2:] and attributes.get("auto_pad", "NOTSET") == "NOTSET"
    plain = not is_product(node) and pixel_strides(node) is None
    return shape is not None and len(shape) == 4 and symmetric and plain
