"""Convolutions, dense layers and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.node_writer import NotWritable
from netweave.formats.lowering.nodes.arrays import dense_arrays
from netweave.formats.lowering.nodes.windows import window_of
from netweave.formats.mxnet.writer.table import MXNetNode, padded, writes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.formats.lowering.windows import Window
    from netweave.formats.mxnet.symbol import Symbol


@writes("Conv")
def conv(node: MXNetNode) -> Symbol:
    """A convolution; padding that differs between both ends is put before it."""
    window = window_of(node)
    x, pad = node.symbol(0), window.pads
    if window.pads != window.end_pads:
        x, pad = padded(node, x, window.pads, window.end_pads), [0] * len(window.kernel)
    settings = {"num_filter": node.stored_shape(1)[0], **_settings(node, window, pad)}
    return node.make("Convolution", x, *_arrays(node), **settings)


@writes("ConvTranspose")
def conv_transpose(node: MXNetNode) -> Symbol:
    """A transposed convolution; padding that MXNet has not at both ends is cut off behind it."""
    window = window_of(node)
    added = node.get("output_padding") or [0] * len(window.kernel)
    end = [pad - more for pad, more in zip(window.end_pads, added, strict=True)]
    pad = [max(pair) for pair in zip(window.pads, end, strict=True)]
    adj = [first - last for first, last in zip(pad, end, strict=True)]
    if window.pads != pad or any(more >= stride for more, stride in zip(adj, window.strides, strict=True)):
        raise NotWritable(
            "its padding at the begin is less than at the end, or the end's is less by a whole stride"
        )
    num_filter = node.stored_shape(1)[1] * node.get("group")
    settings = {"num_filter": num_filter, **_settings(node, window, pad)}
    settings |= {"adj": tuple(adj)} if any(adj) else {}
    return node.make("Deconvolution", node.symbol(0), *_arrays(node), **settings)


def _settings(node: MXNetNode, window: Window, pad: Sequence[int]) -> dict[str, object]:
    settings: dict[str, object] = {"kernel": tuple(window.kernel), "no_bias": not node.has(2)}
    given = {"stride": window.strides, "dilate": window.dilations}
    settings |= {name: tuple(numbers) for name, numbers in given.items() if set(numbers) != {1}}
    settings |= {"pad": tuple(pad)} if any(pad) else {}
    return settings | ({"num_group": node.get("group")} if node.get("group") != 1 else {})


def _arrays(node: MXNetNode) -> list[Symbol]:
    return [node.array("weight", 1), *([node.array("bias", 2)] if node.has(2) else [])]


@writes("MatMul")
def matmul(node: MXNetNode) -> Symbol:
    """A product with a stored matrix as a dense layer, or of two stacks of matrices."""
    if node.is_stored(1) and node.rank(1) == 2:
        return dense(node)
    if node.rank(0) == node.rank(1) == 3:
        return node.make("batch_dot", node.symbol(0), node.symbol(1))
    if node.rank(0) == node.rank(1) == 4:
        return node.make("_linalg_gemm2", node.symbol(0), node.symbol(1))
    raise NotWritable(f"its values have {node.rank(0)} and {node.rank(1)} axes, expected 3 or 4 of both")


@writes("Gemm")
def dense(node: MXNetNode) -> Symbol:
    """A dense layer, with its factors taken into the arrays."""
    arrays = dense_arrays(node)
    # an array that is stored as it stands may be shared with another node
    weight = node.array("weight", 1) if arrays.is_verbatim else node.stored("weight", arrays.weight)
    stored = [weight, *([node.stored("bias", arrays.bias)] if arrays.bias else [])]
    settings = {"num_hidden": arrays.num_outputs, "no_bias": arrays.bias is None, "flatten": False}
    return node.make("FullyConnected", node.symbol(0), *stored, **settings)


@writes("Gather")
def gather(node: MXNetNode) -> Symbol:
    """Rows of a stored table, by whole numbers; or one part along an axis."""
    if node.is_stored(0) and node.get("axis") == 0 and node.rank(0) == 2:
        rows, columns = node.stored_shape(0)
        return node.make(
            "Embedding", node.symbol(1), node.array("weight", 0), input_dim=rows, output_dim=columns
        )
    if node.is_stored(1) and node.constant(1).ndim == 0 and int(node.constant(1)) >= 0:
        axis, at = node.axis(), int(node.constant(1))
        part = node.make("slice_axis", node.symbol(0), axis=axis, begin=at, end=at + 1)
        return node.make("squeeze", part, axis=(axis,))
    raise NotWritable("only rows of a stored table, and one part along an axis, are written")
