"""Layers with weights (convolution-inl.h, deconvolution-inl.h, fully_connected-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.symbol.layouts import LAYOUTS, channels_first, channels_last
from netweave.symbol.registry import operator_reader, with_bias
from netweave.symbol.settings import is_channels_last

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.symbol.call import Call


@operator_reader("Convolution", "Convolution_v1", arguments=with_bias(default_no_bias=False))
def convolution(call: Call) -> ir.Value:
    """Cross-correlation with weights (num_filter, channels / group, kernel...)."""
    kernel = call.settings.kernel()
    groups = call.settings.count("num_group", 1)
    num_filter = call.settings.count("num_filter")
    attributes = _windows(call, kernel) | {"group": groups}
    last = is_channels_last(call.settings.choice("layout", LAYOUTS, None))
    x = channels_first(call, call.value("data"), last)
    channels = _channels(call, x, len(kernel))
    per_group = channels // groups if channels is not None else None
    if last:
        axes = (0, len(kernel) + 1, *range(1, len(kernel) + 1))
        weight = call.parameter("weight", (num_filter, *kernel, per_group), layout=[("transpose", axes)])
    else:
        weight = call.parameter("weight", (num_filter, per_group, *kernel))
    return channels_last(call, call.add("Conv", [x, weight, *_bias(call, num_filter)], attributes), last)


@operator_reader("Deconvolution", arguments=with_bias(default_no_bias=True))
def deconvolution(call: Call) -> ir.Value:
    """Transposed convolution with weights (channels, num_filter / group, kernel...)."""
    kernel = call.settings.kernel()
    groups = call.settings.count("num_group", 1)
    num_filter = call.settings.count("num_filter")
    call.settings.choice("layout", LAYOUTS[:3], None)
    x = call.value("data")
    channels = _channels(call, x, len(kernel))
    attributes = _windows(call, kernel) | {"group": groups}
    adj = call.settings.per_axis("adj", len(kernel), 0)
    target = call.settings.per_axis("target_shape", len(kernel), 0)
    if any(target):
        sizes = call.known_sizes(x, range(2, 2 + len(kernel)))
        attributes["pads"], adj = _pads_for(call, sizes, target, attributes)
    if any(adj):
        attributes["output_padding"] = list(adj)
    weight = call.parameter("weight", (channels, num_filter // groups, *kernel))
    return call.add("ConvTranspose", [x, weight, *_bias(call, num_filter)], attributes)


@operator_reader("FullyConnected", arguments=with_bias(default_no_bias=False))
def fully_connected(call: Call) -> ir.Value:
    """``x W^T + b`` over all axes but the first, or over the last one with ``flatten=False``."""
    num_hidden = call.settings.count("num_hidden")
    flatten = call.settings.flag("flatten", True)
    x = call.value("data")
    rank = len(call.shape(x))
    if flatten and rank != 2:
        x = call.add("Flatten", [x], {"axis": 1})
    features = call.shape(x)[-1]
    shape = (num_hidden, features)
    if flatten or rank == 2:
        weight = call.parameter("weight", shape)
        return call.add("Gemm", [x, weight, *_bias(call, num_hidden)], {"transB": 1})
    product = call.add("MatMul", [x, call.parameter("weight", shape, layout=[("transpose", (1, 0))])])
    bias = _bias(call, num_hidden)
    return call.add("Add", [product, *bias]) if bias else product


def _bias(call: Call, size: int) -> list[ir.Value]:
    return [call.parameter("bias", (size,))] if call.has("bias") else []


def _channels(call: Call, x: ir.Value, spatial: int) -> int | None:
    shape = call.shape(x)
    if len(shape) != spatial + 2:
        raise call.wrong(f"its input has {len(shape)} axes, its kernel needs {spatial + 2}")
    return shape[1]


def _windows(call: Call, kernel: Sequence[int]) -> dict[str, Any]:
    settings, rank = call.settings, len(kernel)
    pad = settings.per_axis("pad", rank, 0)
    return {
        "kernel_shape": list(kernel),
        "strides": list(settings.per_axis("stride", rank, 1)),
        "dilations": list(settings.per_axis("dilate", rank, 1)),
        "pads": [*pad, *pad],
    }


def _pads_for(
    call: Call, sizes: Sequence[int], target: Sequence[int], attributes: dict[str, Any]
) -> tuple[list[int], tuple[int, ...]]:
    """Return pads and output padding for ``target_shape``, which beats ``pad`` and ``adj`` (InferPad)."""
    pads: list[int] = []
    adj: list[int] = []
    windows = zip(attributes["kernel_shape"], attributes["strides"], attributes["dilations"], strict=True)
    for size, wanted, (kernel, stride, dilation) in zip(sizes, target, windows, strict=True):
        total = stride * (size - 1) + dilation * (kernel - 1) + 1 - wanted
        if total < 0:
            raise call.wrong(f"target_shape {tuple(target)} is larger than the output can be")
        adj.append(total % 2)
        pads.append((total + 1) // 2)
    return [*pads, *pads], tuple(adj)
