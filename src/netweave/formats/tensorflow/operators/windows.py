"""Operators of TensorFlow that convolve or resample."""

from __future__ import annotations

import numpy as np

from netweave.formats.lowering.channels_last import Stored, Tensor, windows
from netweave.formats.lowering.channels_last.windows import resize
from netweave.formats.lowering.elementwise import gelu, rectify
from netweave.formats.lowering.windows import Window
from netweave.formats.tensorflow.nodes import Padding, TensorFlowOperation, operator_reader
from netweave.formats.tensorflow.operands import Open, numbers_of
from netweave.formats.tensorflow.operators.elementwise import bias_add

# conv_ops.cc, conv_grad_input_ops.cc, matmul_op.cc and pooling_ops_common.cc.
from netweave.formats.tensorflow.operators.normalization import fused_batch_norm, normalized_by

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
    """Multiply matrices of the last two axes; each factor may be transposed."""
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


ACTIVATIONS = frozenset({"Elu", "Relu", "Relu6", "Sigmoid", "Tanh"})
"""Functions that may stand behind, and are what other frameworks call so too."""


@operator_reader("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_convolution(ctx: TensorFlowOperation) -> Tensor:
    """A convolution, and what ``fused_ops`` names."""
    return _followed(ctx, convolution(ctx))


@operator_reader("_FusedMatMul")
def fused_matmul(ctx: TensorFlowOperation) -> Tensor:
    """A product of matrices, and what ``fused_ops`` names."""
    return _followed(ctx, matmul(ctx))


@operator_reader("_FusedBatchNormEx")
def fused_batch_norm_ex(ctx: TensorFlowOperation) -> Tensor:
    """A normalisation, perhaps with something added, and a rectifier."""
    x = fused_batch_norm(ctx)
    for other in ctx.operands(5, 5 + ctx.integer("num_side_inputs", 0)):
        x = ctx.broadcast("Add", [x, other])
    mode = ctx.string("activation_mode", "Identity")
    return x if mode == "Identity" else _activated(ctx, mode, x)


def _followed(ctx: TensorFlowOperation, x: Tensor) -> Tensor:
    names = [bytes(name).decode("utf-8", "replace") for name in ctx.attribute("fused_ops", [])]
    more = ctx.operands(2, 2 + ctx.integer("num_args", 0))
    for name in names:
        if name == "BiasAdd":
            x = bias_add(ctx, x, _next(ctx, more))
        elif name == "Add":
            x = ctx.broadcast("Add", [x, _next(ctx, more)])
        elif name == "FusedBatchNorm":
            x = normalized_by(ctx, x, [_next(ctx, more) for _ in range(4)])
        else:
            x = _activated(ctx, name, x)
    return x


def _next(ctx: TensorFlowOperation, more: list[Tensor | Stored]) -> Tensor | Stored:
    if not more:
        raise ctx.read_error(f"fused_ops={ctx.attribute('fused_ops')} needs more inputs than the node has")
    return more.pop(0)


def _activated(ctx: TensorFlowOperation, name: str, x: Tensor) -> Tensor:
    if name in ACTIVATIONS:
        return ctx.elementwise(name, x)
    if name == "_FusedHardSwish":
        return ctx.unary("HardSwish", x)
    if name == "LeakyRelu":
        return ctx.elementwise(rectify, x, slope=ctx.number("leakyrelu_alpha", 0.2))
    if name in {"GeluExact", "GeluApproximate"}:
        return ctx.elementwise(gelu, x, approximate=name == "GeluApproximate")
    raise ctx.unsupported(f"{name!r} in fused_ops is not supported")


METHODS = {"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest", "ResizeBicubic": "cubic"}


@operator_reader(*METHODS)
def resized(ctx: TensorFlowOperation) -> Tensor:
    """To sizes (height, width), by one of three conventions."""
    if ctx.attribute("half_pixel_centers", False):
        convention = "half"
    else:
        convention = "corners" if ctx.attribute("align_corners", False) else "asymmetric"
    given = numbers_of(ctx.item(1))
    if given is not None and any(isinstance(number, Open) for number in given.flat):
        raise ctx.unsupported(
            "the new size depends on an unknown size; set the sizes of the net's inputs, as in "
            "--input-shape image=1x224x224x3"
        )
    sizes = ctx.integers_input(1, "the new size")
    method = METHODS[ctx.op]
    return resize(ctx, ctx.operand(), method=method, convention=convention, sizes=sizes)
