"""Convolutions and poolings; SAME stays a rule until sizes are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netweave.files.channels_last.tensor import Operand, Stored, Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    import onnx_ir as ir

    from netweave.files.channels_last.writer import Writer

Padding = str | list[int]
"""``SAME``, ``VALID``, or all begins, then all ends."""


def convolution(
    writer: Writer,
    x: Operand,
    kernel: Operand,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Padding,
    groups: int = 1,
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Write a convolution with a kernel of (sizes..., channels / groups, filters).

    Args:
        writer: Where to.
        x: The tensor.
        kernel: The kernel.
        strides: Steps from one window to the next, one per spatial axis.
        dilations: Steps between neighbouring elements of a window, one per spatial axis.
        padding: See ``Padding``.
        groups: Number of groups of channels.
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = len(writer.shape(kernel))
    order = (rank - 1, rank - 2, *range(rank - 2))
    weight = _kernel(writer, kernel, [("transpose", order)])
    attributes = window_attributes(strides, padding, dilations=dilations) | {"group": groups}
    attributes["kernel_shape"] = writer.known(kernel, range(rank - 2))
    return _written(writer, "Conv", x, [weight, *_bias(writer, bias)], attributes, last=last)


def depthwise(
    writer: Writer,
    x: Operand,
    kernel: Operand,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: Padding,
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Write a convolution of each channel by itself, with a kernel of (sizes..., channels, multiplier)."""
    *sizes, channels, multiplier = writer.known(kernel, range(len(writer.shape(kernel))))
    rank = len(sizes) + 2
    weight = _kernel(
        writer,
        kernel,
        [
            ("reshape", (*sizes, 1, channels * multiplier)),
            ("transpose", (rank - 1, rank - 2, *range(rank - 2))),
        ],
    )
    attributes = window_attributes(strides, padding, dilations=dilations) | {"group": channels}
    attributes["kernel_shape"] = sizes
    return _written(writer, "Conv", x, [weight, *_bias(writer, bias)], attributes, last=last)


def transposed_convolution(
    writer: Writer,
    x: Operand,
    kernel: Operand,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    extra: Sequence[int],
    bias: Operand | None = None,
    last: bool = True,
) -> Tensor:
    """Write a transposed convolution with a kernel of (sizes..., filters, channels).

    Args:
        writer: Where to.
        x: The tensor.
        kernel: The kernel.
        strides: Steps from one window to the next, one per spatial axis.
        dilations: Steps between neighbouring elements of a window, one per spatial axis.
        pads: What is cut off the result: all begins, then all ends.
        extra: What is added at the ends of the result.
        bias: One number per filter.
        last: Whether the source has the channels of ``x`` on the last axis.
    """
    rank = len(writer.shape(kernel))
    weight = _kernel(writer, kernel, [("transpose", (rank - 1, rank - 2, *range(rank - 2)))])
    attributes: dict[str, Any] = {
        "kernel_shape": writer.known(kernel, range(rank - 2)),
        "strides": list(strides),
        "dilations": list(dilations),
        "pads": list(pads),
    }
    if any(extra):
        attributes["output_padding"] = list(extra)
    return _written(writer, "ConvTranspose", x, [weight, *_bias(writer, bias)], attributes, last=last)


def transposed_pads(
    kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], *, same: bool
) -> tuple[list[int], list[int]]:
    """Return what a transposed convolution cuts off (begins, then ends) and adds at the ends.

    With SAME the result is the input times the stride; with VALID every window is whole, and a window
    smaller than its step leaves zeros behind it (tf.nn.conv2d_transpose, keras.layers.Conv2DTranspose).

    >>> transposed_pads([3], [2], [1], same=True)
    ([0, 1], [0])
    """
    begins, ends, extra = [], [], []
    for size, stride, dilation in zip(kernel, strides, dilations, strict=True):
        reach = (size - 1) * dilation + 1
        total = max(reach - stride, 0) if same else 0
        begins.append(total // 2)
        ends.append(total - total // 2)
        extra.append(max(stride - reach, 0))
    return begins + ends, extra


def pooling(
    writer: Writer,
    x: Operand,
    op_type: str,
    *,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    last: bool = True,
) -> Tensor:
    """Write a MaxPool or AveragePool; padding counts neither for the maximum nor in the divisor."""
    attributes = window_attributes(strides, padding) | {"kernel_shape": list(kernel)}
    if op_type == "AveragePool":
        attributes["count_include_pad"] = 0
    return _written(writer, op_type, x, [], attributes, last=last)


def window_attributes(
    strides: Sequence[int], padding: Padding, *, dilations: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return the attributes of a window; SAME pads as little as it can, an odd element at the end."""
    attributes: dict[str, Any] = {"strides": list(strides)}
    if dilations is not None:
        attributes["dilations"] = list(dilations)
    if padding == "SAME":
        return attributes | {"auto_pad": "SAME_UPPER"}
    return attributes | {"pads": [0] * (2 * len(strides)) if isinstance(padding, str) else padding}


def _kernel(writer: Writer, kernel: Operand, layout: list[tuple[str, tuple[int, ...]]]) -> ir.Value:
    """Return the kernel in ONNX's layout; one that the net computes is turned by nodes."""
    if isinstance(kernel, Stored):
        return writer.stored(kernel, layout=layout, role="weight")
    value = writer.source(kernel)
    for kind, numbers in layout:
        if kind == "transpose":
            value = writer.add("Transpose", [value], {"perm": list(numbers)})
        else:
            value = writer.add("Reshape", [value, writer.integers(numbers)])
    return value


def _bias(writer: Writer, bias: Operand | None) -> list[ir.Value]:
    if bias is None:
        return []
    return [writer.stored(bias, role="bias") if isinstance(bias, Stored) else writer.source(bias)]


def _written(
    writer: Writer,
    op_type: str,
    x: Operand,
    more: Sequence[ir.Value],
    attributes: dict[str, Any],
    *,
    last: bool,
) -> Tensor:
    value = writer.first(x) if last else writer.source(x)
    return Tensor(writer.add(op_type, [value, *more], attributes), last)
