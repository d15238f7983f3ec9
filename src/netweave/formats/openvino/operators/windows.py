"""Operators with weights or windows (openvino/docs: operation-sets/operation-specs/convolution, pooling)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netweave.formats.lowering.channels_last import Tensor, windows
from netweave.formats.openvino.registry import operator_reader
from netweave.graph.ops.pooling import pooling as pooling_node

if TYPE_CHECKING:
    from netweave.formats.lowering.parameters import Layout
    from netweave.formats.lowering.windows import Window
    from netweave.formats.openvino.context import OpenVINOOperation


def _attributes(ctx: OpenVINOOperation, window: Window, groups: int) -> dict[str, object]:
    attributes = window.attributes() | {"group": groups}
    if ctx.auto_pad is not None:
        del attributes["pads"]
        attributes["auto_pad"] = ctx.auto_pad
    return attributes


@operator_reader("Convolution", "GroupConvolution")
def convolution(ctx: OpenVINOOperation) -> Tensor:
    """With filters of (filters, channels, sizes...); in groups of (groups, filters, channels, sizes...)."""
    groups, layout, kernel = _grouped(ctx)
    window = ctx.window(kernel)
    weight = ctx.in_layout(ctx.operand(1), layout, role="weight")
    return Tensor(ctx.add("Conv", [ctx.x, weight], _attributes(ctx, window, groups)))


def _grouped(ctx: OpenVINOOperation) -> tuple[int, Layout, list[int]]:
    """Return the groups of weights, the layout that joins them, and the sizes of the window."""
    weight = ctx.operand(1)
    sizes = ctx.sizes(range(ctx.rank(weight)), weight)
    in_groups = ctx.op.startswith("Group")
    if len(sizes) != ctx.rank() + in_groups or len(sizes) < 3 + in_groups:
        raise ctx.shape_error(f"has weights of {len(sizes)} axes for an input of {ctx.rank()}")
    if not in_groups:
        return 1, (), sizes[2:]
    groups, first, second, *kernel = sizes
    return groups, (("reshape", (groups * first, second, *kernel)),), kernel


@operator_reader("ConvolutionBackpropData", "GroupConvolutionBackpropData")
def transposed_convolution(ctx: OpenVINOOperation) -> Tensor:
    """The gradient of a convolution; the output's sizes are a rule, or the third input."""
    groups, layout, kernel = _grouped(ctx)
    window, extra = ctx.window(kernel), ctx.integer_list("output_padding", [0] * len(kernel))
    if ctx.auto_pad is not None and ctx.optional(2) is None:
        raise ctx.unsupported("pads by a rule, but does not give the sizes of its output, which are needed")
    if ctx.auto_pad is not None:
        window, extra = _cut_to_sizes(ctx, window)
    elif ctx.optional(2) is not None:
        raise ctx.unsupported("gives its padding and the sizes of its output, of which only one is supported")
    attributes = window.attributes() | {"group": groups, "output_padding": extra if any(extra) else None}
    weight = ctx.in_layout(ctx.operand(1), layout, role="weight")
    return Tensor(ctx.add("ConvTranspose", [ctx.x, weight], attributes))


def _cut_to_sizes(ctx: OpenVINOOperation, window: Window) -> tuple[Window, list[int]]:
    """Return what is cut off to come to the sizes that are given; with UPPER more at the begin."""
    wanted, sizes = ctx.integers_input(2, "the sizes of the output"), ctx.sizes(range(2, ctx.rank()))
    if len(wanted) != len(sizes):
        raise ctx.shape_error(f"has {len(wanted)} sizes for {len(sizes)} axes")
    surplus = windows.transposed_surplus(window, sizes, wanted, same=True)
    cut = [max(total, 0) for total in surplus]
    begins = [total - total // 2 if ctx.auto_pad == "SAME_UPPER" else total // 2 for total in cut]
    ends = [total - begin for total, begin in zip(cut, begins, strict=True)]
    pads = replace(window, pads=begins, end_pads=ends)
    return pads, [max(-total, 0) for total in surplus]


@operator_reader("MatMul")
def matmul(ctx: OpenVINOOperation) -> Tensor:
    """Of the last two axes, either of them transposed."""
    values = []
    for index, name in enumerate(("transpose_a", "transpose_b")):
        x = ctx.operand(index)
        rank = ctx.rank(x)
        turned = ctx.flag(name) and rank > 1
        perm = (*range(rank - 2), rank - 1, rank - 2)
        values.append(ctx.in_layout(x, [("transpose", perm)] if turned else (), role="weight"))
    return Tensor(ctx.add("MatMul", values))


ROUNDINGS = {"floor": "floor", "ceil": "full", "ceil_torch": "ceil"}
"""How windows are counted: ``ceil_torch`` drops a last one that starts in the padding, ``ceil`` does not."""


@operator_reader("MaxPool", "AvgPool")
def pooling(ctx: OpenVINOOperation) -> Tensor:
    """Windows of maximum or average; ``exclude-pad`` leaves the padding out of the divisor."""
    kernel = ctx.integer_list("kernel")
    if len(kernel) != ctx.rank() - 2:
        raise ctx.read_error(f"kernel={kernel} for an input of {ctx.rank()} axes")
    window, averages = ctx.window(kernel, is_pooling=True), ctx.op == "AvgPool"
    rounding = ROUNDINGS[ctx.choice("rounding_type", tuple(ROUNDINGS), "floor")]
    counts = averages and not ctx.flag("exclude-pad")
    if ctx.auto_pad is not None:
        attributes = {"kernel_shape": kernel, "strides": window.strides, "auto_pad": ctx.auto_pad}
        more = {"count_include_pad": int(counts)} if averages else {"dilations": window.dilations}
        return Tensor(ctx.add("AveragePool" if averages else "MaxPool", [ctx.x], attributes | more))
    dilated = {"dilations": list(window.dilations)} if set(window.dilations) != {1} else {}
    if dilated and rounding == "full":
        raise ctx.unsupported("rounds the number of dilated windows up, which is not supported")
    domain, op_type, attributes = pooling_node(
        averages,
        kernel=window.kernel,
        strides=window.strides,
        pads=window.onnx_pads,
        rounding=rounding,
        count_include_pad=counts,
    )
    return Tensor(ctx.add(op_type, [ctx.x], {**attributes, **dilated}, domain=domain))


@operator_reader("AdaptiveAvgPool", "AdaptiveMaxPool")
def adaptive_pooling(ctx: OpenVINOOperation) -> Tensor:
    """To some sizes, where these divide the input's."""
    averages = ctx.op == "AdaptiveAvgPool"
    wanted = ctx.integers_input(1, "the sizes of the output")
    if len(wanted) != ctx.rank() - 2:
        raise ctx.shape_error(f"has {len(wanted)} sizes for an input of {ctx.rank()} axes")
    if set(wanted) == {1}:
        return Tensor(ctx.add("GlobalAveragePool" if averages else "GlobalMaxPool", [ctx.x]))
    sizes = ctx.sizes(range(2, ctx.rank()))
    if min(wanted) < 1 or any(size % count for size, count in zip(sizes, wanted, strict=True)):
        raise ctx.unsupported(f"output sizes {wanted} do not divide the input's {sizes}")
    kernel = [size // count for size, count in zip(sizes, wanted, strict=True)]
    attributes = {"kernel_shape": kernel, "strides": kernel}
    return Tensor(ctx.add("AveragePool" if averages else "MaxPool", [ctx.x], attributes))


@operator_reader("BatchNormInference")
def batch_normalization(ctx: OpenVINOOperation) -> Tensor:
    """By stored statistics; the first version has the input behind scale and shift."""
    order = (2, 0, 1, 3, 4) if ctx.source_layer.opset == "opset1" else (0, 1, 2, 3, 4)
    x, *arrays = (ctx.operand(index) for index in order)
    roles = ("gamma", "beta", "mean", "variance")
    vectors = [ctx.in_layout(array, role=role) for array, role in zip(arrays, roles, strict=True)]
    attributes = {"epsilon": ctx.number("epsilon")}
    return Tensor(ctx.add("BatchNormalization", [x, *vectors], attributes))
