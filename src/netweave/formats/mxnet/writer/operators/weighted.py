"""Convolutions, dense layers and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.node_writer import NotWritable
from netweave.formats.mxnet.writer.table import MXNetNode, padded, windows_pads, writes

if TYPE_CHECKING:
    from netweave.symbol import Symbol


@writes("Conv")
def conv(node: MXNetNode) -> Symbol:
    """A convolution; padding that differs between both ends is put before it."""
    rank = len(node.constant(1).shape) - 2
    begin, end = windows_pads(node, rank)
    x, pad = node.symbol(0), begin
    if begin != end:
        x, pad = padded(node, x, begin, end), [0] * rank
    settings = {"num_filter": node.constant(1).shape[0], **_windows(node, rank, pad)}
    return node.make("Convolution", x, *_arrays(node), **settings)


@writes("ConvTranspose")
def conv_transpose(node: MXNetNode) -> Symbol:
    """A transposed convolution; padding that MXNet has not at both ends is cut off behind it."""
    weight = node.constant(1).shape
    rank = len(weight) - 2
    begin, end = windows_pads(node, rank)
    if "output_shape" in node.attributes:
        raise NotWritable("its size is a rule (output_shape) that depends on sizes that are not known")
    added = node.get("output_padding") or [0] * rank
    end = [pad - more for pad, more in zip(end, added, strict=True)]
    strides = list(node.get("strides") or [1] * rank)
    pad = [max(pair) for pair in zip(begin, end, strict=True)]
    adj = [first - last for first, last in zip(pad, end, strict=True)]
    if begin != pad or any(more >= stride for more, stride in zip(adj, strides, strict=True)):
        raise NotWritable(
            "its padding at the begin is less than at the end, or the end's is less by a whole stride"
        )
    settings = {"num_filter": weight[1] * node.get("group", 1), **_windows(node, rank, pad)}
    settings |= {"adj": tuple(adj)} if any(adj) else {}
    return node.make("Deconvolution", node.symbol(0), *_arrays(node), **settings)


def _windows(node: MXNetNode, rank: int, pad: list[int]) -> dict[str, object]:
    ones = [1] * rank
    settings: dict[str, object] = {"kernel": tuple(node.constant(1).shape[2:]), "no_bias": not node.has(2)}
    given = {"stride": node.get("strides") or ones, "dilate": node.get("dilations") or ones}
    settings |= {name: tuple(numbers) for name, numbers in given.items() if list(numbers) != ones}
    settings |= {"pad": tuple(pad)} if any(pad) else {}
    return settings | ({"num_group": node.get("group")} if node.get("group", 1) != 1 else {})


def _arrays(node: MXNetNode) -> list[Symbol]:
    return [node.array("weight", 1), *([node.array("bias", 2)] if node.has(2) else [])]


@writes("Gemm")
def gemm(node: MXNetNode) -> Symbol:
    """A dense layer, with its factors taken into the arrays."""
    if node.get("transA", 0):
        raise NotWritable("its first matrix is transposed")
    alpha, beta = np.float32(node.get("alpha", 1.0)), np.float32(node.get("beta", 1.0))
    is_transposed = node.get("transB", 0) == 1
    count = node.constant(1).shape[0 if is_transposed else 1]
    arrays = [
        node.array("weight", 1)
        if is_transposed and alpha == 1
        else node.array("weight", 1, lambda w: (w if is_transposed else w.T) * alpha)
    ]
    if node.has(2):
        arrays.append(node.array("bias", 2, lambda b: np.broadcast_to(b.reshape(-1) * beta, (count,))))
    return node.make(
        "FullyConnected", node.symbol(0), *arrays, num_hidden=count, no_bias=not node.has(2), flatten=False
    )


@writes("MatMul")
def matmul(node: MXNetNode) -> Symbol:
    """A product with a stored matrix as a dense layer, or of two stacks of matrices."""
    if node.is_stored(1) and node.rank(1) == 2:
        weight = node.array("weight", 1, lambda w: w.T)
        count = node.shape(1)[1]
        return node.make(
            "FullyConnected", node.symbol(0), weight, num_hidden=count, no_bias=True, flatten=False
        )
    if node.rank(0) == node.rank(1) == 3:
        return node.make("batch_dot", node.symbol(0), node.symbol(1))
    if node.rank(0) == node.rank(1) == 4:
        return node.make("_linalg_gemm2", node.symbol(0), node.symbol(1))
    raise NotWritable(f"its values have {node.rank(0)} and {node.rank(1)} axes, expected 3 or 4 of both")


@writes("Gather")
def gather(node: MXNetNode) -> Symbol:
    """Rows of a stored table, by whole numbers; or one part along an axis."""
    if node.is_stored(0) and node.get("axis", 0) == 0 and node.rank(0) == 2:
        rows, columns = node.constant(0).shape
        return node.make(
            "Embedding", node.symbol(1), node.array("weight", 0), input_dim=rows, output_dim=columns
        )
    if node.is_stored(1) and node.constant(1).ndim == 0 and int(node.constant(1)) >= 0:
        axis, at = node.axis("axis", 0), int(node.constant(1))
        part = node.make("slice_axis", node.symbol(0), axis=axis, begin=at, end=at + 1)
        return node.make("squeeze", part, axis=(axis,))
    raise NotWritable("only rows of a stored table, and one part along an axis, are written")
