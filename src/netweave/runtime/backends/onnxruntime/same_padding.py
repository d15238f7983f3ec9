"""Padding rules that ONNX Runtime refuses: made numbers once the sizes of the inputs are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import attributes_of
from netweave.graph.passes import explicit
from netweave.runtime.backends.sized import SizedRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx_ir as ir

    from netweave.graph import Graph
    from netweave.runtime.backends.runner import Runner

_WINDOWED = frozenset({"AveragePool", "Conv", "LpPool", "MaxPool"})


def sized(graph: Graph, make: Callable[[Graph], Runner]) -> Runner:
    """Make a graph ready, now if its padding is known or can be left to ONNX Runtime, else when it is run.

    Args:
        graph: The graph; it is not changed.
        make: Makes a graph ready that has no rule that ONNX Runtime refuses.
    """
    if not any(map(_is_refused, graph.nodes)):
        return make(graph)
    graph = explicit(graph)
    return SizedRunner(graph, make) if any(map(_is_refused, graph.nodes)) else make(graph)


def _is_refused(node: ir.Node) -> bool:
    """Return whether ONNX Runtime refuses a SAME rule.

    It refuses a dilated window, and one that may need negative padding.
    """
    if node.op_type not in _WINDOWED or node.domain:
        return False
    attributes = attributes_of(node)
    if attributes.get("auto_pad", "NOTSET") not in {"SAME_UPPER", "SAME_LOWER"}:
        return False
    dilated = any(dilation > 1 for dilation in attributes.get("dilations", ()))
    kernel, strides = attributes.get("kernel_shape", ()), attributes.get("strides", ())
    return dilated or any(stride > k for k, stride in zip(kernel, strides, strict=False))
