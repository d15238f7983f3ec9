"""Convolutions, dense layers and products."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.writing import Refused
from netweave.formats.mxnet.writer.table import Call, padded, windows_pads, written

if TYPE_CHECKING:
    from netweave.symbol import Symbol


@written("Conv")
def conv(call: Call) -> Symbol:
    """A convolution; padding that differs between both ends is put before it."""
    rank = len(call.constant(1).shape) - 2
    begin, end = windows_pads(call, rank)
    x, pad = call.symbol(0), begin
    if begin != end:
        x, pad = padded(call, x, begin, end), [0] * rank
    settings = {"num_filter": call.constant(1).shape[0], **_windows(call, rank, pad)}
    return call.make("Convolution", x, *_arrays(call), **settings)


@written("ConvTranspose")
def conv_transpose(call: Call) -> Symbol:
    """A transposed convolution; padding that MXNet has not at both ends is cut off behind it."""
    weight = call.constant(1).shape
    rank = len(weight) - 2
    begin, end = windows_pads(call, rank)
    if "output_shape" in call.attributes:
        raise Refused("its size is a rule (output_shape) that depends on sizes that are not known")
    added = call.get("output_padding") or [0] * rank
    end = [pad - more for pad, more in zip(end, added, strict=True)]
    strides = list(call.get("strides") or [1] * rank)
    pad = [max(pair) for pair in zip(begin, end, strict=True)]
    adj = [first - last for first, last in zip(pad, end, strict=True)]
    if begin != pad or any(more >= stride for more, stride in zip(adj, strides, strict=True)):
        raise Refused(
            "its padding at the begin is less than at the end, or the end's is less by a whole stride"
        )
    settings = {"num_filter": weight[1] * call.get("group", 1), **_windows(call, rank, pad)}
    settings |= {"adj": tuple(adj)} if any(adj) else {}
    return call.make("Deconvolution", call.symbol(0), *_arrays(call), **settings)


def _windows(call: Call, rank: int, pad: list[int]) -> dict[str, object]:
    ones = [1] * rank
    settings: dict[str, object] = {"kernel": tuple(call.constant(1).shape[2:]), "no_bias": not call.has(2)}
    given = {"stride": call.get("strides") or ones, "dilate": call.get("dilations") or ones}
    settings |= {name: tuple(numbers) for name, numbers in given.items() if list(numbers) != ones}
    settings |= {"pad": tuple(pad)} if any(pad) else {}
    return settings | ({"num_group": call.get("group")} if call.get("group", 1) != 1 else {})


def _arrays(call: Call) -> list[Symbol]:
    return [call.array("weight", 1), *([call.array("bias", 2)] if call.has(2) else [])]


@written("Gemm")
def gemm(call: Call) -> Symbol:
    """A dense layer, with its factors taken into the arrays."""
    if call.get("transA", 0):
        raise Refused("its first matrix is transposed")
    alpha, beta = np.float32(call.get("alpha", 1.0)), np.float32(call.get("beta", 1.0))
    is_transposed = call.get("transB", 0) == 1
    count = call.constant(1).shape[0 if is_transposed else 1]
    arrays = [
        call.array("weight", 1)
        if is_transposed and alpha == 1
        else call.array("weight", 1, lambda w: (w if is_transposed else w.T) * alpha)
    ]
    if call.has(2):
        arrays.append(call.array("bias", 2, lambda b: np.broadcast_to(b.reshape(-1) * beta, (count,))))
    return call.make(
        "FullyConnected", call.symbol(0), *arrays, num_hidden=count, no_bias=not call.has(2), flatten=False
    )


@written("MatMul")
def matmul(call: Call) -> Symbol:
    """A product with a stored matrix as a dense layer, or of two stacks of matrices."""
    if call.is_stored(1) and call.rank(1) == 2:
        weight = call.array("weight", 1, lambda w: w.T)
        count = call.shape(1)[1]
        return call.make(
            "FullyConnected", call.symbol(0), weight, num_hidden=count, no_bias=True, flatten=False
        )
    if call.rank(0) == call.rank(1) == 3:
        return call.make("batch_dot", call.symbol(0), call.symbol(1))
    if call.rank(0) == call.rank(1) == 4:
        return call.make("_linalg_gemm2", call.symbol(0), call.symbol(1))
    raise Refused(f"its values have {call.rank(0)} and {call.rank(1)} axes, expected 3 or 4 of both")


@written("Gather")
def gather(call: Call) -> Symbol:
    """Rows of a stored table, by whole numbers; or one part along an axis."""
    if call.is_stored(0) and call.get("axis", 0) == 0 and call.rank(0) == 2:
        rows, columns = call.constant(0).shape
        return call.make(
            "Embedding", call.symbol(1), call.array("weight", 0), input_dim=rows, output_dim=columns
        )
    if call.is_stored(1) and call.constant(1).ndim == 0 and int(call.constant(1)) >= 0:
        axis, at = call.axis("axis", 0), int(call.constant(1))
        part = call.make("slice_axis", call.symbol(0), axis=axis, begin=at, end=at + 1)
        return call.make("squeeze", part, axis=(axis,))
    raise Refused("only rows of a stored table, and one part along an axis, are written")
