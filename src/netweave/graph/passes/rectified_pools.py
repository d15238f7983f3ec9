"""Max poolings of a rectified value, which may pool first and rectify the fewer results.

Both orders give the same values and the same gradients: a window's maximum is above zero at the same place,
and where it is not, no gradient passes. Rectifying the pooled value touches a quarter of the memory for
windows of 2 x 2, and backward then reads the pooled value, not the large one, which need not be kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import DOMAIN, attributes_of, gradient_factors, known_shape
from netweave.graph.ops.pooling import PoolWindows

if TYPE_CHECKING:
    from collections.abc import Collection

    import onnx_ir as ir

    from netweave.graph import Graph

STANDARD = {"", "ai.onnx"}


def rectified_pools(graph: Graph, wanted: Collection[ir.Value]) -> dict[ir.Node, ir.Node]:
    """Return the max poolings that can be computed before the Relu in front of them, with that Relu.

    Args:
        graph: The graph.
        wanted: Values that must be there by themselves.
    """
    pairs = {}
    for pool in graph.nodes:
        relu = _rectifier(pool, wanted)
        if relu is not None and not gradient_factors(pool) and not gradient_factors(relu):
            pairs[pool] = relu
    return pairs


def _rectifier(pool: ir.Node, wanted: Collection[ir.Value]) -> ir.Node | None:
    """Return the Relu whose only reader a max pooling is."""
    if pool.op_type != "MaxPool" or pool.domain not in {*STANDARD, DOMAIN} or len(pool.outputs) != 1:
        return None
    value = pool.inputs[0]
    relu = value.producer() if value is not None else None
    if value is None or relu is None or relu.op_type != "Relu" or relu.domain not in STANDARD:
        return None
    return relu if len(value.uses()) == 1 and value not in wanted and _reads_all(pool, value) else None


def _reads_all(pool: ir.Node, value: ir.Value) -> bool:
    """Return whether each window holds an element of the image.

    An empty window gives the lowest number, which a rectifier before the pooling would not have changed.
    """
    attributes, shape = attributes_of(pool), known_shape(value)
    windows = PoolWindows.of(pool.domain, attributes)
    if any(dilation != 1 for dilation in windows.dilations):
        return False
    if attributes.get("auto_pad", "NOTSET") != "NOTSET":
        return True  # VALID has no padding, and SAME never as much as a window
    if shape is None or not all(isinstance(size, int) for size in shape[2:]):
        return False
    sizes = [int(size or 0) for size in shape[2:]]
    return all(
        begin < span and (count - 1) * stride - begin < size
        for begin, span, stride, size, count in zip(
            windows.begin, windows.spans, windows.strides, sizes, windows.counts(sizes), strict=True
        )
    )
