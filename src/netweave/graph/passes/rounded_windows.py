"""Poolings whose windows are counted by rounding up, written with end padding and rounding down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.graph import attributes_of, known_shape, make_attributes
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.rewrite import Pass

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.graph import Graph


@Pass
def pad_rounded_windows(graph: Graph) -> None:
    """Replace ``ceil_mode`` by the end padding that gives the same windows, where the sizes are known.

    Runtimes differ in which last window ``ceil_mode`` drops; with padding alone there is nothing to drop. A
    maximum never takes its padding, and a mean that does not count it divides by the same numbers as before;
    one that counts it stays, since it divides by padding but not by what goes on beyond.
    """
    for node in graph.nodes:
        if node.domain or node.op_type not in {"AveragePool", "MaxPool"}:
            continue
        pads = _pads(node)
        if pads is not None:
            node.attributes.pop("ceil_mode", None)
            node.attributes.update({made.name: made for made in make_attributes({"pads": pads})})


def _pads(node: ir.Node) -> list[int] | None:
    """Return the padding of a pooling that rounds up: all begins, then all ends."""
    attributes = attributes_of(node)
    shape = known_shape(node.inputs[0])
    windows = PoolWindows.of(node.domain, attributes)
    is_rule = attributes.get("auto_pad", "NOTSET") != "NOTSET"
    if windows.rounding != "ceil" or is_rule or windows.counts_padding or shape is None:
        return None
    sizes = [size for size in shape[2:] if size is not None]
    if len(sizes) != len(windows.kernel):
        return None
    return windows.begin + [max(end, 0) for end in windows.covering_end(sizes)]
