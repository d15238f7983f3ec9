"""Operators with weights or windows.

conv_ops.cc, conv_grad_input_ops.cc, matmul_op.cc and pooling_ops_common.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.formats.lowering.channels_last import Stored, Tensor, windows
from netweave.formats.lowering.windows import Window
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import Padding, TensorFlowOperation


MAX_PATCH = 2048
"""Windows of more elements are not written as convolutions."""


def convolution(ctx: TensorFlowOperation) -> Tensor:
    """With a filter of (sizes..., channels, filters); depthwise of (sizes..., channels, multiplier)."""
    last, x, kernel = ctx.is_last(), ctx.x, ctx.operand(1)
    dilations = ctx.spatial("dilations", last=last)
    padding: Padding = ctx.padding(last=last)
    if ctx.attribute("_dilated"):
        dilations, padding = _from_batches(ctx)
    sizes = ctx.sizes(range(ctx.rank(kernel) - 2), kernel)
    window = windows.PaddedWindow.of(sizes, ctx.spatial("strides", last=last), padding, dilations)
    groups: int | None = None
    if not ctx.op.endswith("DepthwiseConv2dNative"):
        # TensorFlow says nothing of groups: they follow from the channels of the input and of the filter.
        channels, per_group = ctx.shape(x)[-1 if last else 1], ctx.shape(kernel)[-2]
        groups = channels // per_group if channels and per_group and channels % per_group == 0 else 1
    return windows.convolution(ctx, x, kernel, window, groups=groups, last=last)


# no decorator: fused.py calls it, and needs its own type
operator_reader("Conv2D", "Conv3D", "DepthwiseConv2dNative")(convolution)


@operator_reader("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_convolution(ctx: TensorFlowOperation) -> Tensor:
    """The gradient of a convolution, used as a transposed one: (sizes, filter, x).

    The output's sizes are an input: where they are open, they are those of the rule (``transposed_window``).
    """
    last = ctx.is_last()
    kernel, x = ctx.operand(1), ctx.operand(2)
    padding = ctx.padding(last=last)
    if not isinstance(padding, str):
        raise ctx.unsupported("explicit padding of a transposed convolution is not supported")
    strides, dilations = (ctx.spatial(name, last=last, of=2) for name in ("strides", "dilations"))
    window = Window(ctx.sizes(range(ctx.rank(kernel) - 2), kernel), strides, dilations=dilations)
    spatial = slice(1, -1) if last else slice(2, None)
    sizes, wanted = ctx.shape(x)[spatial], ctx.sizes_input(0, "the size of the output")[spatial]
    surplus = windows.transposed_surplus(window, sizes, wanted, same=padding == "SAME")
    cut_window, extra = windows.transposed_window(window, surplus, same=padding == "SAME")
    return windows.transposed_convolution(ctx, x, kernel, cut_window, extra=extra, last=last)


@operator_reader("ExtractImagePatches")
def patches(ctx: TensorFlowOperation) -> Tensor:
    """Every window as channels: row by row, and all channels of a place beside one another."""
    channels = ctx.size(3)
    sizes, strides, rates = (ctx.integer_list(name, ())[1:3] for name in ("ksizes", "strides", "rates"))
    count = sizes[0] * sizes[1] * channels
    if count > MAX_PATCH:
        raise ctx.unsupported(f"has {count:,} output channels, at most {MAX_PATCH:,} are supported")
    kernel = Stored.constant(np.eye(count, dtype=np.float32).reshape(*sizes, channels, count))
    window = windows.PaddedWindow.of(sizes, strides, ctx.padding(last=True), rates)
    return windows.convolution(ctx, ctx.x, kernel, window)


def matmul(ctx: TensorFlowOperation) -> Tensor:
    """Of the last two axes, either of them transposed."""
    factors: list[Tensor | Stored] = []
    for x, names in zip(
        ctx.operands(0, 2), (("transpose_a", "adj_x"), ("transpose_b", "adj_y")), strict=True
    ):
        factors.append(_transposed(ctx, x) if any(map(ctx.attribute, names)) else x)
    return Tensor(ctx.add("MatMul", factors))


# no decorator: fused.py calls it, and needs its own type
operator_reader("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")(matmul)


@operator_reader("Einsum")
def einsum(ctx: TensorFlowOperation) -> Tensor:
    """A sum over named axes; the equation is that of ONNX."""
    return Tensor(ctx.add("Einsum", ctx.operands(), {"equation": ctx.string("equation", "")}))


def _transposed(ctx: TensorFlowOperation, x: Tensor | Stored) -> Tensor | Stored:
    rank = ctx.rank(x)
    perm = (*range(rank - 2), rank - 1, rank - 2)
    return x.transposed(perm) if isinstance(x, Stored) else Tensor(ctx.transpose(ctx.source(x), perm))


def _from_batches(ctx: TensorFlowOperation) -> tuple[list[int], list[int]]:
    """Return the dilations and pads of a convolution between SpaceToBatchND and BatchToSpaceND."""
    blocks = ctx.integers_input(2, "the block of SpaceToBatchND")
    pads = np.array(ctx.integers_input(3, "the padding of SpaceToBatchND"), np.int64).reshape(-1, 2)
    crops = np.array(ctx.integers_input(4, "the crop of BatchToSpaceND"), np.int64).reshape(-1, 2)
    left = pads - crops
    if (left < 0).any():
        raise ctx.unsupported(f"crops {crops.tolist()} more than {pads.tolist()} pads")
    return blocks, left.T.reshape(-1).tolist()


@operator_reader("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolWithArgmax", "MaxPoolV2")
def pooling(ctx: TensorFlowOperation) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor; V2 has windows and steps as inputs."""
    last = ctx.is_last()
    if ctx.op == "MaxPoolV2":
        spatial = slice(1, -1) if last else slice(2, None)
        kernel = ctx.integers_input(1, "the window")[spatial]
        strides = ctx.integers_input(2, "the step")[spatial]
    else:
        if not ctx.integer_list("ksize", ()):
            raise ctx.read_error("has no 'ksize', expected the size of its window")
        kernel, strides = ctx.spatial("ksize", last=last), ctx.spatial("strides", last=last)
    window = windows.PaddedWindow.of(kernel, strides, ctx.padding(last=last))
    op_type = "AveragePool" if ctx.op.startswith("Avg") else "MaxPool"
    return windows.pooling(ctx, ctx.x, op_type, window, last=last)
