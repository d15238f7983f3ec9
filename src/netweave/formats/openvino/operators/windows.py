"""Operators of OpenVINO on windows and images."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from netweave.formats.lowering.channels_last import Tensor, windows
from netweave.formats.lowering.channels_last.layer import along, reduce
from netweave.formats.lowering.parameters import Layout
from netweave.formats.lowering.windows import Window
from netweave.formats.openvino.context import OpenVINOOperation, operator_reader
from netweave.graph.ops.pooling import pooling as pooling_node


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
    """Multiply matrices of the last two axes; each factor may be transposed."""
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


TRANSFORMATIONS = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
"""Where a pixel takes its value from; ONNX has the same names."""

NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
"""How a place between pixels is rounded."""


@operator_reader("DepthToSpace", "SpaceToDepth")
def space_and_depth(ctx: OpenVINOOperation) -> Tensor:
    """Channels as blocks of pixels, or back."""
    mode = ctx.choice("mode", ("blocks_first", "depth_first"), "blocks_first")
    size = ctx.integer("block_size", 1)
    if ctx.op == "DepthToSpace":
        attributes = {"blocksize": size, "mode": "DCR" if mode == "blocks_first" else "CRD"}
        return Tensor(ctx.add("DepthToSpace", [ctx.x], attributes))
    if mode == "depth_first":
        raise ctx.unsupported("mode=depth_first of SpaceToDepth is not supported")
    return Tensor(ctx.add("SpaceToDepth", [ctx.x], {"blocksize": size}))


@operator_reader("ShuffleChannels")
def shuffle(ctx: OpenVINOOperation) -> Tensor:
    """The channels of groups in turn."""
    axis, groups = ctx.axis(ctx.integer("axis", 1)), ctx.integer("group", 1)
    sizes = ctx.sizes(range(1, ctx.rank()))
    if axis == 0 or groups < 1 or sizes[axis - 1] % groups:
        raise ctx.unsupported(f"shuffles axis {axis} of {sizes} in {groups} groups")
    split = [*sizes[: axis - 1], groups, sizes[axis - 1] // groups, *sizes[axis:]]
    perm = [*range(axis), axis + 1, axis, *range(axis + 2, len(split) + 1)]
    turned = ctx.transpose(ctx.reshape(ctx.x, [0, *split]), perm)
    return Tensor(ctx.reshape(turned, [0, *sizes]))


@operator_reader("Interpolate")
def interpolate(ctx: OpenVINOOperation) -> Tensor:
    """Images of another size; version 11 has sizes or scales in one input, version 4 both."""
    mode = ctx.choice("mode", ("nearest", "linear", "linear_onnx", "cubic"), "nearest")
    if ctx.flag("antialias") or any(ctx.integer_list("pads_begin")) or any(ctx.integer_list("pads_end")):
        raise ctx.unsupported("antialias or padding is not supported")
    older = ctx.source_layer.opset in {"opset4", "opset1"}
    by_sizes = ctx.choice("shape_calculation_mode", ("sizes", "scales"), "sizes") == "sizes"
    at, places = (1 if by_sizes else 2, 3) if older else (1, 2)
    rank = ctx.rank()
    over = ctx.integers_input(places, "the axes") if len(ctx.inputs) > places else [*range(rank)]
    attributes: dict[str, Any] = {
        "axes": [ctx.axis(axis) for axis in over],
        "mode": mode.split("_")[0],
        "coordinate_transformation_mode": ctx.choice(
            "coordinate_transformation_mode", TRANSFORMATIONS, "half_pixel"
        ),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = ctx.choice("nearest_mode", NEAREST, "round_prefer_floor")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = ctx.number("cube_coeff", -0.75)
    if by_sizes:
        sizes = ctx.integers(ctx.integers_input(at, "the new size"))
        return Tensor(ctx.add("Resize", [ctx.x, None, None, sizes], attributes))
    scales = ctx.constant(ctx.known(at, "the scales").reshape(-1), dtype=np.float32)
    return Tensor(ctx.add("Resize", [ctx.x, None, scales], attributes))


@operator_reader("SoftMax", "Softmax", "LogSoftmax")
def softmax(ctx: OpenVINOOperation) -> Tensor:
    """Over one axis."""
    return along(ctx, "LogSoftmax" if ctx.op == "LogSoftmax" else "Softmax", ctx.x, ctx.integer("axis", 1))


@operator_reader("LRN")
def lrn(ctx: OpenVINOOperation) -> Tensor:
    """``x / (bias + alpha / size * sum of squares) ** beta`` over neighbouring channels."""
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    if axes != [1]:
        raise ctx.unsupported(f"normalises over the axes {axes}, expected the channels alone")
    names = ("alpha", "beta", "bias")
    attributes = {"size": ctx.integer("size"), **{name: ctx.number(name) for name in names}}
    return Tensor(ctx.add("LRN", [ctx.x], attributes))


@operator_reader("MVN")
def mean_variance(ctx: OpenVINOOperation) -> Tensor:
    """Without its mean, and divided by its deviation, over some axes."""
    x, rank = ctx.tensor(ctx.x), ctx.rank()
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    epsilon, inside = (
        ctx.number("eps", 1e-9),
        ctx.choice("eps_mode", ("inside_sqrt", "outside_sqrt"), "inside_sqrt"),
    )
    scales = ctx.flag("normalize_variance", True)
    last = list(range(min(axes, default=rank), rank))
    sizes = ctx.shape(x)
    if scales and inside == "inside_sqrt" and sorted(axes) == last and None not in [sizes[a] for a in last]:
        ones = ctx.constant(np.ones([sizes[axis] or 1 for axis in last], np.float32))
        attributes = {"axis": last[0] - rank, "epsilon": epsilon}
        return Tensor(ctx.add("LayerNormalization", [x, ones], attributes))
    centred = ctx.broadcast("Sub", [x, reduce(ctx, "ReduceMean", x, axes, keep=True)])
    if not scales:
        return centred
    variance = reduce(ctx, "ReduceMean", ctx.elementwise("square", centred), axes, keep=True)
    number = ctx.scalar(epsilon, variance)
    if inside == "inside_sqrt":
        deviation = ctx.elementwise("sqrt", ctx.broadcast("Add", [variance, number]))
    else:
        deviation = ctx.broadcast("Add", [ctx.elementwise("sqrt", variance), number])
    return ctx.broadcast("Div", [centred, deviation])


@operator_reader("NormalizeL2")
def normalize_l2(ctx: OpenVINOOperation) -> Tensor:
    """Divided by the root of the sum of squares over some axes."""
    axes = [ctx.axis(axis) for axis in ctx.integers_input(1, "the axes")]
    total = reduce(ctx, "ReduceSumSquare", ctx.x, axes, keep=True)
    op_type = "Add" if ctx.choice("eps_mode", ("add", "max"), "add") == "add" else "Max"
    raised = ctx.broadcast(op_type, [total, ctx.scalar(ctx.number("eps"), total)])
    return ctx.broadcast("Div", [ctx.x, ctx.elementwise("sqrt", raised)])
