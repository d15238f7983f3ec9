"""Taking zeros that are put around a value into the windows of the layer that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import attributes_of, known_shape, make_attributes
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.rewrite import Pass

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from netweave.graph import Graph

_NOT_NEGATIVE = frozenset({"Relu", "Sigmoid", "Softplus", "Abs", "Exp", "Softmax"})
_KEEPS_SIGN = frozenset(
    {"Identity", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Dropout"}
)


@Pass
def absorb_pads(graph: Graph) -> None:
    """Make a Pad of zeros part of the pooling or convolution behind it.

    A maximum takes it only over values that are never negative, where a zero changes nothing; a mean only if
    it counts its padding. A Pad goes when nothing reads it any more.
    """
    for node in list(graph.nodes):
        if node.domain or node.op_type != "Pad":
            continue
        pads = _zeros_around(node)
        if pads is None or node.inputs[0] is None:
            continue
        for use in list(node.outputs[0].uses()):
            take = _TAKERS.get(use.node.op_type) if not use.node.domain and use.idx == 0 else None
            if take is not None and take(use.node, node.inputs[0]) and _add(use.node, pads):
                use.node.replace_input_with(0, node.inputs[0])
        if not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
            graph.model.graph.remove(node, safe=True)


def _zeros_around(node: ir.Node) -> list[int] | None:
    """Return the zeros that a Pad puts around the spatial axes: all begins, then all ends."""
    rank = len(known_shape(node.inputs[0]) or ())
    stored = [None if value is None else value.const_value for value in node.inputs]
    if rank < 3 or len(stored) < 2 or stored[1] is None or (len(stored) > 3 and stored[3] is not None):
        return None
    value = stored[2] if len(stored) > 2 else None
    if node.attributes.get_string("mode", "constant") != "constant" or (
        value is not None and np.any(value.numpy())
    ):
        return None
    numbers = [int(number) for number in stored[1].numpy()]
    begins, ends = numbers[:rank], numbers[rank:]
    if any(begins[:2]) or any(ends[:2]) or min(numbers) < 0:
        return None
    return begins[2:] + ends[2:]


def _add(node: ir.Node, pads: list[int]) -> bool:
    """Add to the padding of a convolution or pooling, unless its own is a rule."""
    attributes = attributes_of(node)
    own = attributes.get("pads") or [0] * len(pads)
    if attributes.get("auto_pad", "NOTSET") not in {"NOTSET", "VALID"}:
        return False
    total = [a + b for a, b in zip(own, pads, strict=True)]
    if node.op_type != "Conv":
        windows = PoolWindows.of(node.domain, attributes)
        outside = any(pad >= size for pad, size in zip(total, 2 * windows.kernel, strict=True))
        if outside or windows.rounding != "floor":
            return False
    node.attributes.pop("auto_pad", None)
    node.attributes.update({made.name: made for made in make_attributes({"pads": total})})
    return True


def is_never_negative(value: ir.Value | None) -> bool:
    """Return whether an activation on the way to a value lets nothing below 0 through."""
    while value is not None:
        node = value.producer()
        if node is None or node.domain:
            return False
        if node.op_type in _NOT_NEGATIVE:
            return True
        if node.op_type == "Clip":
            low = node.inputs[1] if len(node.inputs) > 1 else None
            return low is not None and low.const_value is not None and bool(low.const_value.numpy() >= 0)
        value = node.inputs[0] if node.op_type in _KEEPS_SIGN else None
    return False


def _max_pool(node: ir.Node, source: ir.Value) -> bool:
    own = attributes_of(node).get("pads") or [0]
    return len(node.outputs) == 1 and not any(own) and is_never_negative(source)


def _average_pool(node: ir.Node, source: ir.Value) -> bool:
    """A mean without padding of its own may count the zeros as one that includes its padding."""
    attributes = attributes_of(node)
    if not attributes.get("count_include_pad", 0):
        if any(attributes.get("pads") or [0]):
            return False
        node.attributes.update({made.name: made for made in make_attributes({"count_include_pad": 1})})
    return True


_TAKERS: dict[str, Callable[[ir.Node, ir.Value], bool]] = {
    "AveragePool": _average_pool,
    "Conv": lambda node, source: True,
    "MaxPool": _max_pool,
}
"""Operators that may take zeros around what they read, given themselves and what was padded."""
