"""Convolutions, straight and transposed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.pointwise import is_pointwise, pointwise
from netweave.runtime.backends.torch.table import lowering
from netweave.runtime.backends.torch.windows import Pads, extents, pad, per_axis, resolve_pads, symmetric

if TYPE_CHECKING:
    from netweave.runtime.backends.torch.table import Ints


_STRAIGHT = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
"""By the number of spatial axes; on a CPU autocast knows these and not ``torch.convolution``."""


@lowering("Conv", since=1)
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Correlate over any number of spatial axes; padding that differs at the two ends is made first."""
    num_axes = x.ndim - 2
    stride, dilation = per_axis(strides, num_axes), per_axis(dilations, num_axes)
    window = extents(w.shape[2:], dilation)
    found = resolve_pads(auto_pad, pads, sizes=x.shape[2:], extents=window, strides=stride)
    padding = symmetric(found)
    if padding is None and not torch.is_grad_enabled() and set(stride) == {1} and num_axes in _STRAIGHT:
        return _wider(x, w, b, found, dilation, group)
    if padding is None:
        x, padding = pad(x, found), [0] * num_axes
    if is_pointwise(x, w, strides=stride, padding=padding, group=group):
        return pointwise(x, w, b)
    if num_axes in _STRAIGHT:
        return _STRAIGHT[num_axes](x, w, b, stride, padding, dilation, group)
    return torch.convolution(x, w, b, stride, padding, dilation, False, [0] * num_axes, group)


def _wider(x: Tensor, w: Tensor, b: Tensor | None, pads: Pads, dilation: list[int], group: int) -> Tensor:
    """Pad both ends by the larger padding and leave out what is too much: no padded copy is needed."""
    widest = [max(0, *pair) for pair in pads]
    y = _STRAIGHT[len(pads)](x, w, b, 1, widest, dilation, group)
    for axis, ((begin, end), most) in enumerate(zip(pads, widest, strict=True), start=2):
        y = y.narrow(axis, most - begin, y.shape[axis] - (most - begin) - (most - end))
    return y


@lowering("ConvTranspose", since=1)
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = (),
    group: int = 1,
    kernel_shape: Ints = (),
    output_padding: Ints = (),
    output_shape: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Return the transpose of ``conv``, cut or widened to the size that ONNX's rules give."""
    num_axes = x.ndim - 2
    stride, dilation = per_axis(strides, num_axes), per_axis(dilations, num_axes)
    extra = list(output_padding) or [0] * num_axes
    full = [
        s * (size - 1) + window
        for s, size, window in zip(stride, x.shape[2:], extents(w.shape[2:], dilation), strict=True)
    ]
    if output_shape or auto_pad.startswith("SAME"):
        sizes = list(output_shape[-num_axes:]) or [
            s * size for s, size in zip(stride, x.shape[2:], strict=True)
        ]
        cuts = []
        for whole, added, size in zip(full, extra, sizes, strict=True):
            total = max(whole + added - size, 0)
            less, more = total // 2, total - total // 2
            cuts.append((less, more) if auto_pad == "SAME_UPPER" else (more, less))
        extra = [
            size + begin + end - whole for size, (begin, end), whole in zip(sizes, cuts, full, strict=True)
        ]
    else:
        cuts = resolve_pads(auto_pad, pads, sizes=x.shape[2:], extents=w.shape[2:], strides=stride)
    padding = symmetric(cuts)
    limits = [max(pair) for pair in zip(stride, dilation, strict=True)]
    if padding is not None and all(0 <= e < limit for e, limit in zip(extra, limits, strict=True)):
        return _transposed(x, w, b, stride, padding, dilation, extra, group)
    none = [0] * num_axes
    y = _transposed(x, w, None, stride, none, dilation, none, group)
    y = pad(y, [(-begin, e - end) for (begin, end), e in zip(cuts, extra, strict=True)])
    return y if b is None else y + b.reshape(-1, *[1] * num_axes)


def _transposed(
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    extra: list[int],
    group: int,
) -> Tensor:
    if (transposed := _TRANSPOSED.get(x.ndim - 2)) is not None:
        return transposed(x, w, b, stride, padding, extra, group, dilation)
    return torch.convolution(x, w, b, stride, padding, dilation, True, extra, group)


@lowering("Col2Im", since=18)
def col2im(
    data: Tensor,
    image_shape: Ints,
    block_shape: Ints,
    *,
    dilations: Ints = (),
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Put blocks, one per column, back to their places, adding up where they overlap.

    It is the transposed convolution with the identity, one channel at a time.
    """
    num_axes = len(image_shape)
    stride, dilation = per_axis(strides, num_axes), per_axis(dilations, num_axes)
    window = extents(block_shape, dilation)
    found = resolve_pads("NOTSET", pads, sizes=image_shape, extents=window, strides=stride)
    counts = [
        (size + begin + end - extent) // s + 1
        for size, (begin, end), extent, s in zip(image_shape, found, window, stride, strict=True)
    ]
    num_taps = torch.Size(block_shape).numel()
    blocks = data.reshape(-1, num_taps, *counts)
    identity = torch.eye(num_taps, dtype=data.dtype, device=data.device)
    image = conv_transpose(
        blocks,
        identity.reshape(num_taps, 1, *block_shape),
        dilations=tuple(dilation),
        strides=tuple(stride),
    )
    missing = [
        size + begin + end - s * (count - 1) - extent
        for size, (begin, end), s, count, extent in zip(
            image_shape, found, stride, counts, window, strict=True
        )
    ]
    image = functional.pad(
        image,
        [
            n
            for (begin, end), more in zip(reversed(found), reversed(missing), strict=True)
            for n in (-begin, more - end)
        ],
    )
    return image.reshape(data.shape[0], -1, *image_shape)
