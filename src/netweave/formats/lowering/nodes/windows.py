"""The windows of a node that is being written: of a convolution or a pooling, with explicit padding."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.windows import Window
from netweave.graph.ops.pooling import PoolWindows
from netweave.graph.passes.specialise import same_pads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.node_writer import GraphNode

_OPEN_SIZES = "sizes that are not known; give the input's sizes"


def spatial_sizes(node: GraphNode) -> list[int]:
    """Return the spatial sizes of a node's first input.

    Raises:
        NotWritable: One is open.
    """
    sizes = [size for size in node.shape(0)[2:] if size is not None]
    if len(sizes) != node.rank(0) - 2:
        raise NotWritable(f"its windows depend on {_OPEN_SIZES}")
    return sizes


def kernel_shape(node: GraphNode) -> list[int]:
    """Return the window of a node: its ``kernel_shape``, or the spatial sizes of its stored weights."""
    if node.get("kernel_shape"):
        return list(node.get("kernel_shape"))
    return list(node.stored_shape(1)[2:])


def window_of(node: GraphNode, *, keeps_same: bool = False) -> Window:
    """Return the window of a convolution, transposed or not, with ``auto_pad`` resolved.

    Args:
        node: A Conv or a ConvTranspose.
        keeps_same: Whether a padding of SAME_UPPER is left out, since the framework has a word for it.

    Raises:
        NotWritable: ``auto_pad`` or ``output_shape`` depends on sizes that are open.
    """
    if "output_shape" in node.attributes:
        raise NotWritable(f"its size is a rule (output_shape) that depends on {_OPEN_SIZES}")
    kernel = kernel_shape(node)
    rank = len(kernel)
    strides, dilations = (list(node.get(name) or [1] * rank) for name in ("strides", "dilations"))
    pads = _explicit_pads(node, kernel, strides, dilations, keeps_same=keeps_same)
    return Window(kernel, strides, pads[:rank], pads[rank:], dilations)


def pool_windows_of(node: GraphNode, target: str = "", *, keeps_same: bool = False) -> PoolWindows:
    """Return the windows of a pooling, with ``auto_pad`` resolved.

    Args:
        node: A MaxPool or an AveragePool.
        target: A framework that pools without dilation; empty for one that has it.
        keeps_same: As for ``window_of``.

    Raises:
        NotWritable: ``auto_pad`` depends on sizes that are open, the windows are dilated, or somebody reads
            the places of the maxima, which no framework gives as ONNX does.
    """
    if any(node.is_used(index) for index in range(1, len(node.outputs))):
        raise NotWritable("the places of its maxima are used")
    windows = PoolWindows.of(node.domain, node.attributes)
    if target and set(windows.dilations) != {1}:
        raise NotWritable(f"{target} pools without dilation")
    rank = len(windows.kernel)
    pads = _explicit_pads(node, windows.kernel, windows.strides, windows.dilations, keeps_same=keeps_same)
    if node.get("auto_pad", "NOTSET") != "NOTSET":
        windows = replace(windows, rounding="floor")  # its windows are counted by the rule, not by ceil_mode
    return replace(windows, begin=pads[:rank], end=pads[rank:])


def _explicit_pads(
    node: GraphNode,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    *,
    keeps_same: bool,
) -> list[int]:
    rule = node.get("auto_pad", "NOTSET")
    if rule in {"NOTSET", "VALID"} or (keeps_same and rule == "SAME_UPPER"):
        given = node.get("pads") if rule == "NOTSET" else None
        return list(given or [0] * (2 * len(kernel)))
    if set(strides) == {1} and node.op_type != "ConvTranspose":
        sizes = [1] * len(kernel)  # with steps of 1 the rule is the same for every size
    elif None in node.shape(0)[2:] or node.op_type == "ConvTranspose":
        raise NotWritable(f"its padding is a rule (auto_pad) that depends on {_OPEN_SIZES}")
    else:
        sizes = spatial_sizes(node)
    return same_pads(sizes, kernel, strides=strides, dilations=dilations, upper=rule == "SAME_UPPER")
