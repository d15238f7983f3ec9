"""Convolution and pooling: ``convolution.cc``, ``pooling.cc``, their cuDNN twins, ``common.cc``.

``kConvolution`` and ``kPooling`` are mshadow's, which knows square windows alone and pools without padding;
what SINGA would compute wrongly there is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.windows import Window
from netweave.formats.singa.context import Output, SingaLayer, layer

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.protobuf import Message


def _pair(settings: Message, name: str) -> tuple[int, int]:
    """Return (y, x): the square form where it is set, else the two others."""
    if name in settings:
        return (settings[name],) * 2
    return settings[f"{name}_y"], settings[f"{name}_x"]


def _read_window(ctx: SingaLayer, settings: Message, x: ir.Value, *, square: bool) -> Window:
    kernel, strides, pads = (_pair(settings, name) for name in ("kernel", "stride", "pad"))
    window = Window(kernel, strides=strides, pads=pads)
    window.check(ctx, settings.line)
    if square and any(y != x for y, x in (kernel, strides, pads)):
        raise ctx.read_error(
            f"SINGA's {ctx.spec['type']} has only square windows, found kernel {kernel}, stride {strides} "
            f"and padding {pads} (y, x)",
            settings.line,
        )
    window.check_fits(ctx, ctx.shape(x)[2:], settings.line)
    return window


@layer("kConvolution", "kCConvolution", "kCudnnConv")
def convolution(ctx: SingaLayer) -> Output:
    """Cross-correlation; weights [out, in * height * width], with a bias if there is a second parameter."""
    settings = ctx.spec["convolution_conf"]
    x = ctx.images()
    window = _read_window(ctx, settings, x, square=ctx.spec["type"] == "kConvolution")
    filters, channels = ctx.positive_field(settings, "num_filters"), ctx.size(1, x)
    count = ctx.expect_parameters([1, 2], "the weights and the bias")
    height, width = window.kernel
    layout = [("reshape", (filters, channels, height, width))]
    arrays = [ctx.parameter(0, (filters, channels * height * width), "weight", layout=layout)]
    if count == 2:
        arrays.append(ctx.parameter(1, (filters,), "bias"))
    return Output([ctx.add_output("Conv", [x, *arrays], window.attributes())])


@layer("kPooling", "kCPooling", "kCudnnPool")
def pooling(ctx: SingaLayer) -> Output:
    """Maximum or average; sizes are rounded down. Averages count padding, with cuDNN they do not."""
    settings = ctx.spec["pooling_conf"]
    if "stride" not in settings and "stride_x" not in settings:
        raise ctx.read_error(
            "has no 'stride', which is 1 in SINGA 0.1 and 2 in later ones; set the value that was used",
            settings.line,
        )
    kind = ctx.spec["type"]
    x = ctx.images()
    window = _read_window(ctx, settings, x, square=kind == "kPooling")
    if kind == "kPooling" and any(window.pads):
        raise ctx.read_error(
            "SINGA's kPooling has no padding, although it uses padding to compute sizes; use kCPooling",
            settings.line_of("pad"),
        )
    window.check(ctx, settings.line, is_pooling=True)
    if settings["pool"] == "MAX":
        return Output([ctx.add_output("MaxPool", [x], window.attributes())])
    attributes = window.attributes() | {"count_include_pad": int(kind != "kCudnnPool")}
    return Output([ctx.add_output("AveragePool", [x], attributes)])
