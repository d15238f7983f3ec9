"""Operators with weights (conv_ops.cc, conv_grad_input_ops.cc, matmul_op.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored, Tensor, windows
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand
    from netweave.formats.tensorflow.call import Call, Padding


@operator_reader("Conv2D", "Conv3D", "DepthwiseConv2dNative")
def convolution(call: Call) -> Tensor:
    """With a filter of (sizes..., channels, filters); depthwise of (sizes..., channels, multiplier)."""
    return convolved(call)


def convolved(call: Call) -> Tensor:
    """Return the first input with the filter that is the second."""
    last = call.is_last()
    x, kernel = call.operand(0), call.operand(1)
    dilations = call.spatial("dilations", last=last)
    padding: Padding = call.padding(last=last)
    if call.attribute("_dilated"):
        dilations, padding = _from_batches(call)
    strides = call.spatial("strides", last=last)
    if call.op.endswith("DepthwiseConv2dNative"):
        return windows.depthwise(
            call.writer, x, kernel, strides=strides, dilations=dilations, padding=padding, last=last
        )
    channels = call.shape(x)[-1 if last else 1]
    per_group = call.shape(kernel)[-2]
    groups = channels // per_group if channels and per_group and channels % per_group == 0 else 1
    return windows.convolution(
        call.writer,
        x,
        kernel,
        strides=strides,
        dilations=dilations,
        padding=padding,
        groups=groups,
        last=last,
    )


@operator_reader("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_convolution(call: Call) -> Tensor:
    """The gradient of a convolution, used as a transposed one: (sizes, filter, x).

    The output's sizes are an input: where they are those of the rule (``transposed_pads``), they are left
    to it; otherwise sizes must be known.
    """
    last = call.is_last()
    kernel, x = call.operand(1), call.operand(2)
    strides, dilations = (call.spatial(name, last=last, of=2) for name in ("strides", "dilations"))
    sizes = call.writer.known(kernel, range(len(call.shape(kernel)) - 2))
    wanted = call.sizes(0, "the size of the output")
    spatial = wanted[1:-1] if last else wanted[2:]
    given = call.shape(x)[1:-1] if last else call.shape(x)[2:]
    padding = call.padding(last=last)
    if not isinstance(padding, str):
        raise call.refuse("explicit padding of a transposed convolution is not read")
    pads, extra = windows.transposed_pads(sizes, strides, dilations, same=padding == "SAME")
    rank = len(sizes)
    for axis in range(rank):
        size, goal = given[axis], spatial[axis]
        if size is None or goal is None:
            continue
        reach = (sizes[axis] - 1) * dilations[axis] + 1
        total = (size - 1) * strides[axis] + reach - goal
        if padding == "VALID":
            pads[axis], pads[axis + rank], extra[axis] = 0, max(total, 0), max(-total, 0)
        else:
            pads[axis], pads[axis + rank] = max(total, 0) // 2, max(total, 0) - max(total, 0) // 2
            extra[axis] = max(-total, 0)
    return windows.transposed_convolution(
        call.writer, x, kernel, strides=strides, dilations=dilations, pads=pads, extra=extra, last=last
    )


@operator_reader("ExtractImagePatches")
def patches(call: Call) -> Tensor:
    """Every window as channels: row by row, and all channels of a place beside one another."""
    x = call.operand()
    (channels,) = call.writer.known(x, [3])
    window = call.numbers("ksizes")[1:3]
    steps, rates = (call.numbers(name)[1:3] for name in ("strides", "rates"))
    count = window[0] * window[1] * channels
    if count > MAX_PATCH:
        raise call.refuse(f"makes {count:,} channels of windows, at most {MAX_PATCH:,} are read")
    kernel = Stored.constant(np.eye(count, dtype=np.float32).reshape(*window, channels, count))
    return windows.convolution(
        call.writer,
        x,
        kernel,
        strides=steps,
        dilations=rates,
        padding=call.padding(last=True),
        groups=1,
        last=True,
    )


MAX_PATCH = 2048
"""Windows of more elements are not written as convolutions."""


@operator_reader("MatMul")
def matmul(call: Call) -> Tensor:
    """Of two matrices, either of them transposed."""
    return multiplied(call)


def multiplied(call: Call) -> Tensor:
    """Return the product of the first two inputs."""
    a, b = call.operand(0), call.operand(1)
    if call.attribute("transpose_a", False):
        a = _turned(call, a, 2)
    if call.attribute("transpose_b", False):
        b = _turned(call, b, 2)
    return Tensor(call.writer.add("MatMul", [call.writer.source(a), call.writer.source(b)]))


@operator_reader("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def batch_matmul(call: Call) -> Tensor:
    """Of the last two axes, either of them transposed."""
    a, b = call.operand(0), call.operand(1)
    if call.attribute("adj_x", False):
        a = _turned(call, a, len(call.shape(a)))
    if call.attribute("adj_y", False):
        b = _turned(call, b, len(call.shape(b)))
    return Tensor(call.writer.add("MatMul", [call.writer.source(a), call.writer.source(b)]))


@operator_reader("Einsum")
def einsum(call: Call) -> Tensor:
    """A sum over named axes; the equation is that of ONNX."""
    values = [call.writer.source(x) for x in call.operands()]
    return Tensor(call.writer.add("Einsum", values, {"equation": call.text("equation", "")}))


def _turned(call: Call, x: Operand, rank: int) -> Operand:
    perm = (*range(rank - 2), rank - 1, rank - 2)
    if isinstance(x, Stored):
        return x.transposed(perm)
    return Tensor(call.writer.add("Transpose", [call.writer.source(x)], {"perm": list(perm)}))


def _from_batches(call: Call) -> tuple[list[int], list[int]]:
    """Return the dilations and pads of a convolution between SpaceToBatchND and BatchToSpaceND."""
    blocks = call.integers(2, "the block of SpaceToBatchND")
    pads = np.array(call.integers(3, "the padding of SpaceToBatchND"), np.int64).reshape(-1, 2)
    crops = np.array(call.integers(4, "the crop of BatchToSpaceND"), np.int64).reshape(-1, 2)
    left = pads.astype(int) - crops.astype(int)
    if (left < 0).any():
        raise call.refuse(f"crops {crops.tolist()} more than {pads.tolist()} pads")
    return blocks, [*left[:, 0].tolist(), *left[:, 1].tolist()]
