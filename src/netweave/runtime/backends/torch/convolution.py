"""Convolutions and matrix products in torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from netweave.runtime.backends.torch.elementwise import is_pointwise, pointwise
from netweave.runtime.backends.torch.kernels import PLAIN, Kernels
from netweave.runtime.backends.torch.operator_table import Ints, lower_to, lowering

lower_to(torch.det, "Det", since=11, num_inputs=1)


@lowering("MatMul", since=1)
def matmul(a: Tensor, b: Tensor, *, kernels: Kernels = PLAIN) -> Tensor:
    """Multiply as ``numpy.matmul``."""
    return kernels.matmul(a, b)


@lowering("Gemm", since=9)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Return ``alpha * a @ b + beta * c``; the usual dense layer is one call of torch's."""
    a = a.t() if transA else a
    if alpha == beta == 1.0 and (c is None or c.ndim == 1) and a.is_floating_point():
        return kernels.linear(a, b if transB else b.t(), c)
    y = kernels.matmul(a, b.t() if transB else b)
    y = y if alpha == 1.0 else (alpha * y).to(y.dtype)
    if c is None:
        return y
    return y + (c if beta == 1.0 else (beta * c).to(c.dtype))


@lowering("Einsum", since=12)
def einsum(*data: Tensor, equation: str) -> Tensor:
    """Sum products over indices in Einstein's notation, which torch reads without blanks and in any case."""
    return torch.einsum(equation.replace(" ", ""), *data)


Pads = list[tuple[int, int]]
"""Padding as (begin, end), one entry per spatial axis."""


def per_axis(values: Sequence[int], num_axes: int) -> list[int]:
    """Return one entry per axis; ones if none are given."""
    return list(values) or [1] * num_axes


def extents(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    """Return how many elements each window spans, dilation included."""
    return [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]


def resolve_pads(
    auto_pad: str,
    pads: Sequence[int],
    *,
    sizes: Sequence[int],
    extents: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """Return the padding of each spatial axis, for SAME worked out from the sizes.

    ONNX: with SAME there are ``ceil(size / stride)`` windows, and an odd element of padding goes to the
    end (SAME_UPPER) or to the begin (SAME_LOWER).

    Args:
        auto_pad: ONNX's ``NOTSET``, ``VALID``, ``SAME_UPPER`` or ``SAME_LOWER``.
        pads: All begins, then all ends; empty for none.
        sizes: Sizes of the spatial axes.
        extents: Elements that each window spans.
        strides: Steps from one window to the next.
    """
    num_axes = len(sizes)
    if auto_pad == "NOTSET" and pads:
        return list(zip(pads[:num_axes], pads[num_axes:], strict=True))
    if auto_pad not in {"SAME_UPPER", "SAME_LOWER"}:
        return [(0, 0)] * num_axes
    pairs = []
    for size, extent, stride in zip(sizes, extents, strides, strict=True):
        total = max((-(-size // stride) - 1) * stride + extent - size, 0)
        less, more = total // 2, total - total // 2
        pairs.append((less, more) if auto_pad == "SAME_UPPER" else (more, less))
    return pairs


def symmetric(pads: Pads) -> list[int] | None:
    """Return one padding per axis if begins and ends are the same."""
    return [begin for begin, _ in pads] if all(begin == end for begin, end in pads) else None


def pad(x: Tensor, pads: Pads, value: float = 0.0) -> Tensor:
    """Pad the last axes with a value; a negative padding cuts."""
    if not any(any(pair) for pair in pads):
        return x
    return functional.pad(x, [size for pair in reversed(pads) for size in pair], value=value)


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
    kernels: Kernels = PLAIN,
) -> Tensor:
    """Correlate over any number of spatial axes; padding that differs at the two ends is made first."""
    num_axes = x.ndim - 2
    stride, dilation = per_axis(strides, num_axes), per_axis(dilations, num_axes)
    window = extents(w.shape[2:], dilation)
    resolved = resolve_pads(auto_pad, pads, sizes=x.shape[2:], extents=window, strides=stride)
    padding = symmetric(resolved)
    if padding is None and not torch.is_grad_enabled() and set(stride) == {1} and num_axes in _STRAIGHT:
        return _wider(x, w, b, resolved, dilation, group)
    if padding is None:
        x, padding = pad(x, resolved), [0] * num_axes
    if is_pointwise(x, w, strides=stride, padding=padding, group=group):
        return pointwise(x, w, b, kernels)
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
    resolved = resolve_pads("NOTSET", pads, sizes=image_shape, extents=window, strides=stride)
    counts = [
        (size + begin + end - extent) // s + 1
        for size, (begin, end), extent, s in zip(image_shape, resolved, window, stride, strict=True)
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
            image_shape, resolved, stride, counts, window, strict=True
        )
    ]
    image = functional.pad(
        image,
        [
            n
            for (begin, end), more in zip(reversed(resolved), reversed(missing), strict=True)
            for n in (-begin, more - end)
        ],
    )
    return image.reshape(data.shape[0], -1, *image_shape)


def unmasked_relu(x: Tensor, *, in_place: bool) -> Tensor:
    """Rectify; the gradient passes as it is, since the convolution behind has masked it already."""
    y: Tensor = _UnmaskedRelu.apply(x, in_place)
    return y


def masked_conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, pads: Ints = (), strides: Ints = (), **rest: Any
) -> Tensor:
    """Correlate a rectified image, of which nobody else reads the memory; its gradient is the Relu's.

    Args:
        x: Images, (N, C, H, W); their memory is freed by backward.
        w: Filters.
        b: Biases.
        pads: Padding, the same at both ends of an axis.
        strides: Steps, one per axis.
        rest: The further settings of ONNX's Conv.
    """
    if torch.is_autocast_enabled(x.device.type):  # as autocast does for torch's own convolution
        kind = torch.get_autocast_dtype(x.device.type)
        x, w, b = x.to(kind), w.to(kind), None if b is None else b.to(kind)
    window = (per_axis(strides, 2), list(pads[:2]) or [0, 0], per_axis(rest.get("dilations", ()), 2))
    y: Tensor = _MaskedConv.apply(x, w, b, window, rest.get("group", 1))
    return y


class _UnmaskedRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, in_place: bool) -> Tensor:
        if not in_place:
            return torch.relu(x)
        ctx.mark_dirty(x)
        return torch.relu_(x)

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        return above, None


class _MaskedConv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor | None, window: Any, group: int) -> Tensor:
        ctx.save_for_backward(x, w)
        stride, padding, dilation = window
        sizes = None if b is None else list(b.shape)
        ctx.settings = (sizes, stride, padding, dilation, False, [0, 0], group)
        settings = (stride, padding, dilation, False, [0, 0], group)
        # only oneDNN's gradient of the input is known to leave the input alone
        ctx.frees = torch._C._select_conv_backend(x, w, b, *settings) == torch._C._ConvBackend.Mkldnn
        with torch.autocast(x.device.type, enabled=False):
            return torch.conv2d(x, w, b, stride, padding, dilation, group)

    @staticmethod
    @torch.autograd.function.once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        back = torch.ops.aten.convolution_backward
        wants_x, wants_w, wants_b = ctx.needs_input_grad[:3]
        if not ctx.frees or not wants_x:
            of_x, of_w, of_b = back(above, x, w, *ctx.settings, [wants_x, wants_w, wants_b])
            of_x = torch.ops.aten.threshold_backward(of_x, x, 0) if wants_x else None
            return of_x, of_w, of_b, None, None
        _, of_w, of_b = back(above, x, w, *ctx.settings, [False, wants_w, wants_b])
        alive = torch.le(x, 0).logical_not_()  # as torch's own, which lets the gradient of NaN pass
        x.untyped_storage().resize_(0)  # x still has its shape, and that is all the kernel looks at
        of_x = back(above, x, w, *ctx.settings, [True, False, False])[0]
        _mask(of_x, alive)
        return of_x, of_w, of_b, None, None


def _mask(gradient: Tensor, alive: Tensor) -> None:
    """Set a gradient to zero where a value is not alive, one sample after another to need little memory."""
    for row, signs in zip(gradient.split(1), alive.split(1), strict=True):
        torch.ops.aten.threshold_backward.grad_input(row, signs.to(row.dtype), 0, grad_input=row)
