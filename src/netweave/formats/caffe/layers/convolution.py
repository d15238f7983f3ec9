"""Convolution, Deconvolution, Im2col: ``base_conv_layer.cpp``, ``conv_layer.cpp``, ``deconv_layer.cpp``."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.caffe.layers.fused import fuses, joined, refuse_fused
from netweave.formats.lowering import MANY
from netweave.formats.lowering.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir


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
