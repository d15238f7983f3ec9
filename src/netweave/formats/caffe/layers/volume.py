"""C3D's layers over time, height and width: ``convolution3d_layer.cpp``, ``pool3d_layer.cpp`` and kin.

Their settings stand in ``convolution_param`` and ``pooling_param`` (version 1.0) or in messages of their own
(1.1). A size for time is said by itself, one for height and width together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.caffe.context import CaffeLayer, layer
from netweave.formats.lowering.windows import Window
from netweave.graph.ops.pooling import pooling

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.protobuf import Message


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
    found: Message = ctx.spec[later if later in ctx.spec else f"{name}_param"]
    return found


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
    found = parameter[name]
    values = list(found) if isinstance(found, list) else [found]
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
