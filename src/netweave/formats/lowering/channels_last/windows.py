"""Convolutions and poolings; SAME stays a rule until sizes are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.formats.lowering.channels_last.tensor import Operand, Tensor
from netweave.formats.lowering.windows import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer
    from netweave.formats.lowering.parameters import Layout

Padding = str | list[int]
"""``SAME``, ``VALID``, or all begins, then all ends."""


@dataclass(frozen=True, slots=True)
class PaddedWindow(Window):
    """A window whose padding may follow from sizes that are not known yet.

    Attributes:
        same: Whether it pads as little as it can for an output of input by stride, an odd element at the end.
    """

    same: bool = False

    @classmethod
    def of(
        cls, kernel: Sequence[int], strides: Sequence[int], padding: Padding, dilations: Sequence[int] = ()
    ) -> PaddedWindow:
        """Return a window with the padding as the source says it."""
        pads = [] if isinstance(padding, str) else padding
        rank = len(pads) // 2
        return cls(kernel, strides, pads[:rank], pads[rank:], dilations, padding == "SAME")

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of ONNX's Conv."""
        attributes = Window.attributes(self)  # super() knows no class that slots made anew
        if self.same:
            del attributes["pads"]
            attributes["auto_pad"] = "SAME_UPPER"
        return attributes


def convolution(
    ctx: ChannelsLastLayer,
    x: Operand,
    kernel: Operand,
    window: Window,
    *,
    groups: int | None = 1,
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Add a convolution with a kernel of (sizes..., channels / groups, filters).

    Args:
        ctx: The layer.
        x: The tensor.
        kernel: The kernel.
        window: How it moves.
        groups: Number of groups of channels; None for a depthwise convolution, which has a kernel of
            (sizes..., channels, multiplier).
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = ctx.rank(kernel)
    layout: Layout = (("transpose", (rank - 1, rank - 2, *range(rank - 2))),)
    if groups is None:
        *sizes, groups, multiplier = ctx.sizes(range(rank), kernel)
        layout = (("reshape", (*sizes, 1, groups * multiplier)), *layout)
    _check(ctx, x, window, last=last)
    inputs = [ctx.ordered(x, first=last), *_weights(ctx, kernel, layout, bias)]
    return Tensor(ctx.add("Conv", inputs, window.attributes() | {"group": groups}), last)


def transposed_convolution(
    ctx: ChannelsLastLayer,
    x: Operand,
    kernel: Operand,
    window: Window,
    *,
    extra: Sequence[int],
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Add a transposed convolution with a kernel of (sizes..., filters, channels).

    Args:
        ctx: The layer.
        x: The tensor.
        kernel: The kernel.
        window: How it moves; its padding is what is cut off the result.
        extra: What is added at the ends of the result.
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = ctx.rank(kernel)
    layout: Layout = (("transpose", (rank - 1, rank - 2, *range(rank - 2))),)
    window.check(ctx)
    attributes = window.attributes() | {"output_padding": list(extra) if any(extra) else None}
    inputs = [ctx.ordered(x, first=last), *_weights(ctx, kernel, layout, bias)]
    return Tensor(ctx.add("ConvTranspose", inputs, attributes), last)


def transposed_window(
    window: Window, surplus: Sequence[int] | None = None, *, same: bool
) -> tuple[Window, list[int]]:
    """Return the window with what a transposed convolution cuts off the result, and what it adds at the ends.

    With SAME the result is the input times the stride; with VALID every window is whole, and a window
    smaller than its step leaves zeros behind it (tf.nn.conv2d_transpose, keras.layers.Conv2DTranspose).

    Args:
        window: Its kernel, strides and dilations.
        surplus: How much larger the uncut result is than the wanted one; by default as above.
        same: Whether half of it is cut off at the begin, as with SAME; else all at the end.

    >>> window, extra = transposed_window(Window([3], [2]), same=True)
    >>> window.onnx_pads, extra
    ([0, 1], [0])
    """
    if surplus is None:
        surplus = transposed_surplus(window, unknown := [None] * len(window.kernel), unknown, same=same)
    cut = [max(total, 0) for total in surplus]
    begins = [total // 2 if same else 0 for total in cut]
    ends = [total - begin for total, begin in zip(cut, begins, strict=True)]
    pads = Window(window.kernel, window.strides, begins, ends, window.dilations)
    return pads, [max(-total, 0) for total in surplus]


def transposed_surplus(
    window: Window, sizes: Sequence[int | None], wanted: Sequence[int | None], *, same: bool
) -> list[int]:
    """Return for each axis how much larger the uncut result of a transposed convolution is than wanted.

    Args:
        window: Its kernel, strides and dilations.
        sizes: Spatial sizes of the input; None for an open one.
        wanted: Spatial sizes of the output; where one is open, the rule of SAME or VALID says it.
        same: Whether the rule is that of SAME.
    """
    surplus = []
    for extent, stride, size, goal in zip(window.extents, window.strides, sizes, wanted, strict=True):
        if size is None or goal is None:
            surplus.append(extent - stride if same else min(extent - stride, 0))
        else:
            surplus.append((size - 1) * stride + extent - goal)
    return surplus


def pooling(ctx: ChannelsLastLayer, x: Operand, op_type: str, window: Window, *, last: bool = True) -> Tensor:
    """Add a MaxPool or AveragePool; padding counts neither for the maximum nor in the divisor."""
    _check(ctx, x, window, last=last, is_pooling=True)
    attributes = {name: value for name, value in window.attributes().items() if name != "dilations"}
    if op_type == "AveragePool":
        attributes["count_include_pad"] = 0
    return Tensor(ctx.add(op_type, [ctx.ordered(x, first=last)], attributes), last)


def _check(
    ctx: ChannelsLastLayer, x: Operand, window: Window, *, last: bool, is_pooling: bool = False
) -> None:
    shape = ctx.shape(x)
    spatial = shape[1:-1] if last else shape[2:]
    window.check(ctx, is_pooling=is_pooling)
    if not (isinstance(window, PaddedWindow) and window.same):  # with SAME the padding makes it fit
        window.check_fits(ctx, spatial)


def _weights(ctx: ChannelsLastLayer, kernel: Operand, layout: Layout, bias: Operand | None) -> list[ir.Value]:
    weight = ctx.in_layout(kernel, layout, role="weight")
    return [weight] if bias is None else [weight, ctx.in_layout(bias, role="bias")]
