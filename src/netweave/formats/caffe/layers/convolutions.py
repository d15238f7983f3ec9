"""Layers of Caffe that convolve, multiply or resize."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import onnx_ir as ir

from netweave.files.protobuf import Message
from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.elementwise import fuses, joined, refuse_fused
from netweave.formats.caffe.layers.faces import unit_rows
from netweave.formats.lowering import MANY
from netweave.formats.lowering.windows import Window, repeat_elements
from netweave.graph.ops.pooling import pooling


def read_window(ctx: CaffeLayer, *, may_fuse: bool = False) -> Window:
    """Return the kernel of a layer with a ``convolution_param``.

    Args:
        ctx: The layer.
        may_fuse: Whether it reads the fields by which the Intel branch joins other layers behind it.

    Raises:
        ReadError: A size is missing, given twice, given for too many axes, or 0.
        UnsupportedError: The channels are not on axis 1, or something is joined that is not read.
    """
    parameter = ctx.spec["convolution_param"]
    rank = ctx.rank()
    if rank < 3 or ctx.axis(parameter["axis"]) != 1:
        raise ctx.unsupported(
            f"the channels must be on axis 1 of 3 or more, found axis {parameter['axis']} of {rank}",
            parameter.line_of("axis"),
        )
    if not may_fuse:
        refuse_fused(ctx, parameter)
    num_axes = rank - 2
    window = Window(
        _per_axis(ctx, "kernel_size", "kernel", num_axes, None),
        strides=_per_axis(ctx, "stride", "stride", num_axes, 1),
        pads=_per_axis(ctx, "pad", "pad", num_axes, 0),
        dilations=_per_axis(ctx, "dilation", "", num_axes, 1),
    )
    window.check(ctx, parameter.line)
    return window


def _per_axis(ctx: CaffeLayer, name: str, short: str, num_axes: int, default: int | None) -> list[int]:
    parameter = ctx.spec["convolution_param"]
    pair = [f"{short}_h", f"{short}_w"]
    line = parameter.line_of(name)
    if short and any(each in parameter for each in pair):
        line = parameter.line_of(next(each for each in pair if each in parameter))
        if parameter[name]:
            raise ctx.read_error(f"has both {name!r} and {pair[0]!r} or {pair[1]!r}, expected one form", line)
        if num_axes != 2:
            raise ctx.read_error(
                f"{pair[0]!r} and {pair[1]!r} are for two spatial axes, found {num_axes}", line
            )
        return [parameter[each] for each in pair]
    values = list(parameter[name])
    if not values and default is None:
        raise ctx.read_error(f"has no {name!r}", parameter.line)
    if len(values) > 1 and len(values) != num_axes:
        raise ctx.read_error(f"{name!r} has {len(values)} values, expected 1 or {num_axes}", line)
    if not values:
        values = [default or 0]
    return values if len(values) == num_axes else values * num_axes


def _num_output(ctx: CaffeLayer) -> tuple[int, int]:
    """Return the channels that come out and the groups."""
    parameter = ctx.spec["convolution_param"]
    num_output, group = ctx.positive_field(parameter, "num_output"), parameter["group"]
    ctx.check_groups(group, (ctx.size(1), num_output), setting="group", line=parameter.line_of("group"))
    return num_output, group


@layer("Convolution", bottoms=(1, MANY), tops=(1, MANY))
def convolution(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Cross-correlation; several bottoms share the weights [out, in / group, kernel]."""
    window, parameter = read_window(ctx, may_fuse=True), ctx.spec["convolution_param"]
    if not fuses(parameter):
        return _correlated(ctx, window, *_num_output(ctx))
    return [joined(ctx, parameter, _correlated(ctx, window, *_num_output(ctx), as_tops=False)[0])]


@layer("DepthwiseConvolution", bottoms=(1, MANY), tops=(1, MANY))
def depthwise_on_gpu(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A Convolution whose kernel for GPUs takes one channel for one: ``depthwise_conv_layer.cpp``."""
    window = read_window(ctx)
    num_output, group = _num_output(ctx)
    if not group == num_output == ctx.size(1):
        raise ctx.read_error(
            f"'group' is {group} and 'num_output' {num_output}, expected the number of its channels, "
            f"{ctx.size(1)}",
            ctx.spec["convolution_param"].line,
        )
    return _correlated(ctx, window, num_output, group)


@layer("ConvolutionDepthwise")
def depthwise(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A window for each channel: ``conv_dw_layer.cpp``, which reads neither 'group' nor 'num_output'."""
    return _correlated(ctx, read_window(ctx), ctx.size(1), ctx.size(1))


def _correlated(
    ctx: CaffeLayer, window: Window, num_output: int, group: int, *, as_tops: bool = True
) -> Sequence[ir.Value]:
    window.check_fits(ctx, ctx.shape()[2:])
    weight = (num_output, ctx.size(1) // group, *window.kernel)
    return _apply(ctx, "Conv", weight, num_output, window.attributes() | {"group": group}, as_tops=as_tops)


@layer("Deconvolution", bottoms=(1, MANY), tops=(1, MANY))
def deconvolution(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The transpose of a convolution; weights [in, out / group, kernel], as ONNX has them."""
    window = read_window(ctx)
    num_output, group = _num_output(ctx)
    weight = (ctx.size(1), num_output // group, *window.kernel)
    return _apply(ctx, "ConvTranspose", weight, num_output, window.attributes() | {"group": group})


def _apply(
    ctx: CaffeLayer,
    op_type: str,
    weight: tuple[int, ...],
    num_output: int,
    attributes: dict[str, Any],
    *,
    as_tops: bool = True,
) -> list[ir.Value]:
    parameter = ctx.spec["convolution_param"]
    arrays = [ctx.blob(0, weight, "weight", parameter["weight_filler"])]
    if parameter["bias_term"]:
        arrays.append(ctx.blob(1, (num_output,), "bias", parameter["bias_filler"]))
    return [
        ctx.add(op_type, [bottom, *arrays], attributes, top=index if as_tops else None)
        for index, bottom in enumerate(ctx.bottoms[: len(ctx.tops)])
    ]


@layer("Im2col", bottoms=(1, MANY), tops=(1, MANY))
def im2col(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Windows as channels, in the order channel, row, column: a convolution that picks one element each."""
    window = read_window(ctx)
    channels, area = ctx.size(1), prod(window.kernel)
    picks = np.tile(
        np.eye(area, dtype=np.float32).reshape(area, 1, *window.kernel),
        (channels, *[1] * (1 + len(window.kernel))),
    )
    weight = ctx.constant(picks)
    attributes = window.attributes() | {"group": channels}
    return [
        ctx.add("Conv", [bottom, weight], attributes, top=index) for index, bottom in enumerate(ctx.bottoms)
    ]


# Their settings stand in ``convolution_param`` and ``pooling_param`` (version 1.0) or in messages of their
# own (1.1). A size for time is said by itself, one for height and width together.


@layer("Convolution3D")
def convolution3d(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Cross-correlation; weights [out, in, depth, height, width]."""
    parameter = _parameter(ctx, "convolution")
    window = _window(ctx, parameter)
    weight = (ctx.positive_field(parameter, "num_output"), ctx.size(1), *window.kernel)
    return _applied(ctx, parameter, "Conv", weight, window)


@layer("Deconvolution3D")
def deconvolution3d(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """The transpose of a convolution; weights [in, out, depth, height, width]."""
    parameter = _parameter(ctx, "convolution")
    window = _window(ctx, parameter)
    weight = (ctx.size(1), ctx.positive_field(parameter, "num_output"), *window.kernel)
    return _applied(ctx, parameter, "ConvTranspose", weight, window)


@layer("Pooling3D")
def pooling3d(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Maximum or average; sizes are rounded up, and a window that overhangs stays."""
    parameter = _parameter(ctx, "pooling")
    method = parameter["pool"]
    if method == "STOCHASTIC":
        raise ctx.unsupported(
            "'pool' STOCHASTIC is not supported; MAX and AVE are", parameter.line_of("pool")
        )
    window = _window(ctx, parameter)
    if method == "MAX" and any(window.pads):
        raise ctx.read_error("'pad' requires 'pool' AVE", parameter.line_of("pad"))
    domain, op_type, attributes = pooling(
        method == "AVE",
        kernel=window.kernel,
        strides=window.strides,
        pads=window.onnx_pads,
        rounding="full",
        count_include_pad=True,
    )
    return [ctx.add(op_type, [ctx.x], attributes, domain=domain, top=0)]


def _parameter(ctx: CaffeLayer, name: str) -> Message:
    """Return the settings of either version."""
    if ctx.rank() != 5:
        raise ctx.shape_error(f"needs five axes (N, C, time, height, width), found {ctx.rank()}")
    later = f"{name}3d_param"
    parameter: Message = ctx.spec[later if later in ctx.spec else f"{name}_param"]
    return parameter


def _window(ctx: CaffeLayer, parameter: Message) -> Window:
    kernel = _sizes(ctx, parameter, "kernel_depth", "kernel_size", None)
    strides = _sizes(ctx, parameter, "temporal_stride", "stride", 1)
    pads = _sizes(ctx, parameter, "temporal_pad", "pad", 0)
    window = Window(kernel, strides=strides, pads=pads)
    window.check(ctx, parameter.line)
    window.check_fits(ctx, ctx.shape()[2:])
    return window


def _sizes(ctx: CaffeLayer, parameter: Message, time: str, plane: str, default: int | None) -> list[int]:
    missing = [name for name in (time, plane) if default is None and not _has(parameter, name)]
    if missing:
        raise ctx.read_error(f"has no {missing[0]!r}", parameter.line)
    return [_one(ctx, parameter, name, default or 0) for name in (time, plane, plane)]


def _has(parameter: Message, name: str) -> bool:
    return name in parameter and parameter[name] != []


def _one(ctx: CaffeLayer, parameter: Message, name: str, default: int) -> int:
    if not _has(parameter, name):
        return default
    value = parameter[name]
    values = list(value) if isinstance(value, list) else [value]
    if len(values) != 1:
        raise ctx.read_error(f"{name!r} has {len(values)} values, expected 1", parameter.line_of(name))
    return int(values[0])


def _applied(
    ctx: CaffeLayer, parameter: Message, op_type: str, weight: tuple[int, ...], window: Window
) -> Sequence[ir.Value]:
    """Add the operator; ``filter_group`` cuts the work, not the net."""
    arrays = [ctx.blob(0, weight, "weight", parameter["weight_filler"])]
    if parameter["bias_term"]:
        num_output = ctx.positive_field(parameter, "num_output")
        arrays.append(ctx.blob(1, (num_output,), "bias", parameter["bias_filler"]))
    return [ctx.add(op_type, [ctx.x, *arrays], window.attributes(), top=0)]


@layer("Upsample", bottoms=(1, 2))
def upsample(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Each element repeated; with a second bottom, put back where a maximum pooling found it.

    The one is of YOLO's ports, the other of SegNet and ENet, both named ``upsample_layer.cpp``.
    """
    ctx.require_rank(4)
    parameter = ctx.spec["upsample_param"]
    if len(ctx.bottoms) == 2:
        return [_unpooled(ctx, _unpooled_size(ctx, parameter))]
    for name in ("scale_h", "scale_w", "upsample_h", "upsample_w", "pad_out_h", "pad_out_w"):
        if name in parameter:
            raise ctx.read_error(
                f"{name!r} requires a second bottom with the positions of a max pooling",
                parameter.line_of(name),
            )
    factor = parameter.get("scale", 1)
    if factor < 1:
        raise ctx.read_error(f"'scale' is {factor}, expected 1 or more", parameter.line_of("scale"))
    return [repeat_elements(ctx, ctx.x, factor, name=ctx.tops[0])]


def _unpooled_size(ctx: CaffeLayer, parameter: Message) -> list[int]:
    """Return height and width as they are said, or by factors less the padding."""
    if "upsample_h" in parameter and "upsample_w" in parameter:
        return [parameter["upsample_h"], parameter["upsample_w"]]
    sizes = []
    for axis, side in ((2, "h"), (3, "w")):
        factor = parameter.get(f"scale_{side}", parameter["scale"])
        padded = parameter[f"pad_out_{side}"]
        if factor < 2 or (padded and factor != 2):
            raise ctx.read_error(
                f"scale is {factor}, expected 2 or more, and 2 with 'pad_out_{side}'", parameter.line
            )
        sizes.append(ctx.size(axis) * factor - int(padded))
    return sizes


def _unpooled(ctx: CaffeLayer, size: list[int]) -> ir.Value:
    """Put each element at its place within its plane; the rest is 0."""
    if ctx.shape() != ctx.shape(ctx.bottoms[1]):
        raise ctx.shape_error(
            f"its bottoms must have the same shape, found {ctx.shape()} and {ctx.shape(ctx.bottoms[1])}"
        )
    channels, (height, width) = ctx.size(1), size
    if height * width < ctx.size(2) * ctx.size(3):
        raise ctx.shape_error(
            f"{height}x{width} elements are too few for the input of {ctx.size(2)}x{ctx.size(3)}"
        )
    x, places = (ctx.reshape(bottom, [0, 0, -1]) for bottom in ctx.bottoms)
    batch = ctx.add("Shape", [ctx.x], {"start": 0, "end": 1})
    planes = ctx.concat([batch, ctx.integers([channels, height * width])], 0)
    empty = ctx.add("Expand", [ctx.constant([[[0.0]]]), planes])
    numbers = ctx.cast(places, ir.DataType.INT64)
    flat = ctx.add("ScatterElements", [empty, numbers, x], {"axis": 2})
    return ctx.as_top(ctx.reshape(flat, [0, channels, height, width]))


@layer("Interp", bottoms=(1, 2))
def interp(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Linear between the corners, which stay corners: DeepLab's and PSPNet's ``interp_layer.cpp``.

    A second bottom gives height and width.
    """
    parameter = ctx.spec["interp_param"]
    ctx.require_rank(4)
    pads = [parameter["pad_beg"], parameter["pad_end"]]
    if max(pads) > 0:
        raise ctx.read_error(
            f"'pad_beg' and 'pad_end' are {pads}, expected 0 or less, since they crop", parameter.line
        )
    cut = [ctx.size(axis) + sum(pads) for axis in (2, 3)]
    if min(cut) < 1:
        raise ctx.shape_error(f"crops {-sum(pads)} of {ctx.size(2)}x{ctx.size(3)} elements")
    x = ctx.x
    if any(pads):
        borders = ([-pads[0]] * 2, [-pads[0] + size for size in cut], [2, 3])
        x = ctx.add("Slice", [x, *(ctx.integers(border) for border in borders)])
    size = _interp_size(ctx, parameter, cut)
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners", "axes": [2, 3]}
    return [ctx.add("Resize", [x, None, None, ctx.integers(size)], attributes, top=0)]


def _interp_size(ctx: CaffeLayer, parameter: Message, size: list[int]) -> list[int]:
    """Return height and width: by factors where one is given, then as they are said."""
    if len(ctx.bottoms) == 2:
        return [ctx.size(2, ctx.bottoms[1]), ctx.size(3, ctx.bottoms[1])]
    given = [name for name in ("shrink_factor", "zoom_factor") if name in parameter]
    for name in given:
        if parameter[name] < 1:
            raise ctx.read_error(
                f"{name!r} is {parameter[name]}, expected 1 or more", parameter.line_of(name)
            )
    sides = [parameter["height"], parameter["width"]]
    if len(given) == 1 or (given and not ("height" in parameter and "width" in parameter)):
        shrunk = [(side - 1) // parameter["shrink_factor"] + 1 for side in size]
        return [side + (side - 1) * (parameter["zoom_factor"] - 1) for side in shrunk]
    if min(sides) < 1:
        raise ctx.read_error(
            "has neither 'zoom_factor' nor 'shrink_factor', nor 'height' and 'width' above 0", parameter.line
        )
    return sides


@layer("InnerProduct")
def inner_product(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """A matrix product over all axes from ``axis`` on; weights [out, in], or [in, out] if ``transpose``."""
    parameter = ctx.spec["inner_product_param"]
    if fuses(parameter):
        return [joined(ctx, parameter, _product(ctx, top=None))]
    return [_product(ctx, top=0)]


def _product(ctx: CaffeLayer, *, top: int | None) -> ir.Value:
    parameter = ctx.spec["inner_product_param"]
    num_output, transpose = ctx.positive_field(parameter, "num_output"), parameter["transpose"]
    axis = ctx.axis(parameter["axis"])
    num_inputs = prod(ctx.size(each) for each in range(axis, ctx.rank()))
    shape = (num_inputs, num_output) if transpose else (num_output, num_inputs)
    flat = axis <= 1
    layout = () if flat or transpose else (("transpose", (1, 0)),)
    weight = ctx.blob(0, shape, "weight", parameter["weight_filler"], layout=layout)
    if parameter["normalize"]:
        if transpose or not flat:
            raise ctx.unsupported(
                "'normalize' with 'transpose', or with an axis behind the first two, is not supported",
                parameter.line_of("normalize"),
            )
        weight = unit_rows(ctx, weight)
    bias = ctx.blob(1, (num_output,), "bias", parameter["bias_filler"]) if parameter["bias_term"] else None
    if flat:
        return _product_of_rows(ctx, axis, weight, bias, transpose=transpose, top=top)
    x = ctx.x
    if axis < ctx.rank() - 1:
        x = ctx.add("Reshape", [x, ctx.integers([0] * axis + [num_inputs])])
    product = ctx.add("MatMul", [x, weight], top=None if bias else top)
    return ctx.add("Add", [product, bias], top=top) if bias else product


def _product_of_rows(
    ctx: CaffeLayer,
    axis: int,
    weight: ir.Value,
    bias: ir.Value | None,
    *,
    transpose: bool,
    top: int | None,
) -> ir.Value:
    x = ctx.x
    if axis == 0 or ctx.rank() != 2:
        x = ctx.add("Flatten", [x], {"axis": axis})
    inputs = [x, weight, bias] if bias else [x, weight]
    attributes = {"transB": 0 if transpose else 1}
    if axis:
        return ctx.add("Gemm", inputs, attributes, top=top)
    row = ctx.add("Gemm", inputs, attributes)
    return ctx.add("Reshape", [row, ctx.integers([-1])], top=top)


@layer("Embed")
def embed(ctx: CaffeLayer) -> Sequence[ir.Value]:
    """Rows of a table [input_dim, num_output], chosen by whole numbers that come as floats."""
    parameter = ctx.spec["embed_param"]
    num_output, num_rows = (ctx.positive_field(parameter, name) for name in ("num_output", "input_dim"))
    table = ctx.blob(0, (num_rows, num_output), "weight", parameter["weight_filler"])
    index = ctx.cast(ctx.x, ir.DataType.INT64)
    if not parameter["bias_term"]:
        return [ctx.add("Gather", [table, index], {"axis": 0}, top=0)]
    bias = ctx.blob(1, (num_output,), "bias", parameter["bias_filler"])
    return [ctx.add("Add", [ctx.add("Gather", [table, index], {"axis": 0}), bias], top=0)]
