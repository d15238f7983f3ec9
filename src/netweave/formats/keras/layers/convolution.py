"""Convolutions (keras/layers/convolutional)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import windows
from netweave.formats.keras.layers.activation import activate
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Stored, Tensor
    from netweave.formats.keras.call import Call, Padding


def _rank(call: Call) -> int:
    return int(call.layer.type.removesuffix("Transpose")[-2])


def _padding(call: Call, kernel: list[int], dilations: list[int]) -> Padding:
    """Return the padding; ``causal`` pads the begin by all that a window reaches back."""
    padding = call.padding()
    if padding == "CAUSAL":
        return [(kernel[0] - 1) * dilations[0], 0]
    if padding not in {"SAME", "VALID"}:
        raise call.wrong(f"padding={padding.lower()!r}, expected same, valid or causal")
    return padding


def _bias(call: Call, size: int) -> Stored | None:
    return call.stored("bias", (size,), role="bias") if call.flag("use_bias", True) else None


@layer_reader("Conv1D", "Conv2D", "Conv3D", "Convolution1D", "Convolution2D", "Convolution3D")
def convolution(call: Call) -> Tensor:
    """With a kernel of (sizes..., channels / groups, filters)."""
    rank, last = _rank(call), call.is_last()
    filters, groups = call.count("filters"), call.whole("groups", 1)
    channels = call.channels(last=last)
    if groups < 1 or channels % groups:
        raise call.wrong(f"{channels} channels do not make {groups} groups")
    sizes, dilations = call.per_axis("kernel_size", rank), call.per_axis("dilation_rate", rank)
    made = windows.convolution(
        call.writer,
        call.x,
        call.stored("kernel", (*sizes, channels // groups, filters)),
        strides=call.per_axis("strides", rank),
        dilations=dilations,
        padding=_padding(call, sizes, dilations),
        groups=groups,
        bias=_bias(call, filters),
        last=last,
    )
    return activate(call, made, "activation")


@layer_reader("DepthwiseConv1D", "DepthwiseConv2D")
def depthwise_convolution(call: Call) -> Tensor:
    """Each channel by itself, with a kernel of (sizes..., channels, multiplier)."""
    rank, last = _rank(call), call.is_last()
    channels, multiplier = call.channels(last=last), call.whole("depth_multiplier", 1)
    sizes, dilations = call.per_axis("kernel_size", rank), call.per_axis("dilation_rate", rank)
    name = "depthwise_kernel" if call.keras < 3 else "kernel"
    made = windows.depthwise(
        call.writer,
        call.x,
        call.stored(name, (*sizes, channels, multiplier)),
        strides=call.per_axis("strides", rank),
        dilations=dilations,
        padding=_padding(call, sizes, dilations),
        bias=_bias(call, channels * multiplier),
        last=last,
    )
    return activate(call, made, "activation")


@layer_reader("SeparableConv1D", "SeparableConv2D", "SeparableConvolution2D")
def separable_convolution(call: Call) -> Tensor:
    """Each channel by itself, then all channels at each place."""
    rank, last = (
        (2, call.is_last()) if call.layer.type == "SeparableConvolution2D" else (_rank(call), call.is_last())
    )
    channels, filters = call.channels(last=last), call.count("filters")
    multiplier = call.whole("depth_multiplier", 1)
    sizes, dilations = call.per_axis("kernel_size", rank), call.per_axis("dilation_rate", rank)
    depthwise = call.stored("depthwise_kernel", (*sizes, channels, multiplier))
    pointwise = call.stored("pointwise_kernel", (*[1] * rank, channels * multiplier, filters))
    inner = windows.depthwise(
        call.writer,
        call.x,
        depthwise,
        strides=call.per_axis("strides", rank),
        dilations=dilations,
        padding=_padding(call, sizes, dilations),
        last=last,
    )
    ones = [1] * rank
    made = windows.convolution(
        call.writer,
        inner,
        pointwise,
        strides=ones,
        dilations=ones,
        padding="VALID",
        bias=_bias(call, filters),
        last=last,
    )
    return activate(call, made, "activation")


def _given_pads(call: Call, sizes: list[int], dilations: list[int]) -> tuple[list[int], list[int]]:
    """Return the pads and what is added at the end where ``output_padding`` says the size of the output."""
    rank = len(sizes)
    wanted = call.per_axis("output_padding", rank)
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    cut = [2 * (size // 2) if call.padding() == "SAME" else 0 for size in reach]
    left = [edge - more for edge, more in zip(cut, wanted, strict=True)]
    begins = [max(total, 0) // 2 for total in left]
    ends = [max(total, 0) - begin for total, begin in zip(left, begins, strict=True)]
    return [*begins, *ends], [max(-total, 0) for total in left]


@layer_reader("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "Deconvolution2D")
def transposed_convolution(call: Call) -> Tensor:
    """With a kernel of (sizes..., filters, channels)."""
    rank = 2 if call.layer.type == "Deconvolution2D" else _rank(call)
    last = call.is_last()
    filters, channels = call.count("filters"), call.channels(last=last)
    sizes, strides = call.per_axis("kernel_size", rank), call.per_axis("strides", rank)
    dilations = call.per_axis("dilation_rate", rank)
    pads, extra = windows.transposed_pads(sizes, strides, dilations, same=call.padding() == "SAME")
    if call.setting("output_padding") is not None:
        pads, extra = _given_pads(call, sizes, dilations)
    made = windows.transposed_convolution(
        call.writer,
        call.x,
        call.stored("kernel", (*sizes, filters, channels)),
        strides=strides,
        dilations=dilations,
        pads=pads,
        extra=extra,
        bias=_bias(call, filters),
        last=last,
    )
    return activate(call, made, "activation")
