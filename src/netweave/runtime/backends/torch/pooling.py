"""Pooling in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from netweave.graph.ops.pooling import PoolWindows
from netweave.runtime.backends.torch.convolution import Pads, extents, pad, per_axis, resolve_pads
from netweave.runtime.backends.torch.operator_table import Ints, lowering, needs_gradient


def max_pool_2d(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    ceil_mode: bool,
) -> Tensor:
    """Return what ``torch.nn.functional.max_pool2d`` does; its backward keeps ``x`` too, for the shape alone.

    Args:
        x: Images on a CPU, (N, C, H, W).
        kernel: Window sizes, one per axis, as all that follow.
        strides: Steps from one window to the next.
        pads: Padding at both ends.
        dilations: Steps between neighbouring elements of a window.
        ceil_mode: Keep a last, overhanging window.
    """
    y: Tensor = _MaxPool2d.apply(x, kernel, strides, pads, dilations, ceil_mode)
    return y


class _MaxPool2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *windows: Any) -> Tensor:
        y, places = torch.ops.aten.max_pool2d_with_indices(x, *windows)
        ctx.save_for_backward(places)
        ctx.shape, ctx.windows = x.shape, windows
        ctx.is_last = x.is_contiguous(memory_format=torch.channels_last)
        return y

    @staticmethod
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        form = torch.channels_last if ctx.is_last else torch.contiguous_format
        gradient = torch.empty(ctx.shape, dtype=above.dtype, device=above.device, memory_format=form)
        back = torch.ops.aten.max_pool2d_with_indices_backward
        if torch.is_grad_enabled():  # for a gradient of the gradient
            gradient = back(above, gradient, *ctx.windows, places)
        else:  # of its input the kernel reads the shape only
            back.grad_input(above, gradient, *ctx.windows, places, grad_input=gradient)
        return gradient, *[None] * len(ctx.windows)


class _ToAll(torch.autograd.Function):
    """Maxima without padding, each of which sends its gradient to all elements that are equal to it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, rule: PoolWindows) -> Tensor:
        ctx.save_for_backward(x, y)
        ctx.rule = rule
        return y.view_as(y)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]  # torch says no types
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        x, y = ctx.saved_tensors
        gradient = torch.zeros_like(x)
        for start in product(*map(range, ctx.rule.kernel)):
            steps = zip(start, ctx.rule.strides, strict=True)
            taken = (..., *(slice(first, None, step) for first, step in steps))
            counts = zip(x[taken].shape[2:], y.shape[2:], strict=True)
            windows = (..., *(slice(min(count)) for count in counts))  # the last ones may overhang
            equal = x[taken][windows] == y[windows]
            gradient[taken][windows] += above[windows] * equal
        return gradient, None, None


_MAX_POOLS = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVERAGE_POOLS = {2: functional.avg_pool2d, 3: functional.avg_pool3d}
_CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


@dataclass(frozen=True, slots=True)
class _Windows:
    """The windows of one pooling over one input; every list has one entry per spatial axis.

    Attributes:
        sizes: Sizes of the input.
        rule: The windows, whatever the sizes.
        counts: Number of windows.
    """

    sizes: list[int]
    rule: PoolWindows
    counts: list[int]

    @property
    def covering(self) -> Pads:
        """The padding with which the last windows end where the input does."""
        return list(zip(self.rule.begin, self.rule.covering_end(self.sizes), strict=True))

    def ceil_mode(self) -> bool | None:
        """Return the ``ceil_mode`` with which torch makes these windows; None if it cannot."""
        rule = self.rule
        if rule.begin != rule.end or any(2 * p > k for p, k in zip(rule.begin, rule.kernel, strict=True)):
            return None
        rounding = rule.equal_rounding(self.sizes, ("floor", "ceil"))
        return None if rounding is None else rounding == "ceil"

    def divisors(self, like: Tensor) -> Tensor:
        """Return how many elements each window averages: those inside the input, or its padding too."""
        rule = self.rule
        counts = torch.ones((), dtype=like.dtype, device=like.device)
        for axis, (begin, end) in enumerate(zip(rule.begin, rule.end, strict=True)):
            starts = torch.arange(self.counts[axis], device=like.device) * rule.strides[axis] - begin
            taps = torch.arange(rule.kernel[axis], device=like.device) * rule.dilations[axis]
            places = starts[:, None] + taps
            low, high = (-begin, self.sizes[axis] + end) if rule.counts_padding else (0, self.sizes[axis])
            inside = ((places >= low) & (places < high)).sum(1)
            counts = counts[..., None] * inside.to(like.dtype)
        return counts.clamp(min=1)


def _windows(
    x: Tensor,
    kernel: Ints,
    *,
    strides: Ints,
    pads: Ints,
    rounding: str,
    dilations: Ints = (),
    auto_pad: str = "NOTSET",
    count_include_pad: int = 0,
) -> _Windows:
    stride, dilation = per_axis(strides, len(kernel)), per_axis(dilations, len(kernel))
    sizes, spans = list(x.shape[2:]), extents(kernel, dilation)
    resolved = resolve_pads(auto_pad, pads, sizes=sizes, extents=spans, strides=stride)
    rule = PoolWindows(
        kernel=list(kernel),
        strides=stride,
        dilations=dilation,
        begin=[begin for begin, _ in resolved],
        end=[end for _, end in resolved],
        rounding=rounding,
        counts_padding=bool(count_include_pad),
    )
    return _Windows(sizes, rule, rule.counts(sizes))


def _max_pool(x: Tensor, windows: _Windows, lowest: float) -> tuple[Tensor, Tensor]:
    """Return maxima and their places in one channel's plane of the input, row by row."""
    pads = windows.covering
    padded = pad(x, pads, lowest)
    y, places = _MAX_POOLS[len(pads)](
        padded, windows.rule.kernel, windows.rule.strides, 0, windows.rule.dilations, return_indices=True
    )
    return y, _shifted(places, padded.shape[2:], windows.sizes, pads)


def _shifted(places: Tensor, padded: Sequence[int], sizes: Sequence[int], pads: Pads) -> Tensor:
    """Turn flat places in the padded plane into flat places in the plane itself."""
    shifted, step, rest = torch.zeros_like(places), 1, places
    for size, whole, (begin, _) in zip(reversed(sizes), reversed(padded), reversed(pads), strict=True):
        shifted = shifted + (rest % whole - begin) * step
        rest, step = rest // whole, step * size
    return shifted


def _pool_max(x: Tensor, windows: _Windows, lowest: float) -> Tensor:
    """Return maxima; torch pads by itself where it can."""
    mode, pads = windows.ceil_mode(), windows.rule.begin
    if mode is None:
        x, pads, mode = pad(x, windows.covering, lowest), [0] * len(windows.rule.kernel), False
    rule = windows.rule
    if len(rule.kernel) == 2 and x.device.type == "cpu" and needs_gradient(x):
        return max_pool_2d(x, rule.kernel, rule.strides, pads, rule.dilations, mode)
    return _MAX_POOLS[len(rule.kernel)](x, rule.kernel, rule.strides, pads, rule.dilations, mode)


def _window_sums(x: Tensor, windows: _Windows) -> Tensor:
    """Return the sum of each window, padding counted as zero."""
    padded, num_axes = pad(x, windows.covering), len(windows.rule.kernel)
    if num_axes in _AVERAGE_POOLS and all(d == 1 for d in windows.rule.dilations):
        pool = _AVERAGE_POOLS[num_axes]
        return pool(padded, windows.rule.kernel, windows.rule.strides, divisor_override=1)
    planes = padded.reshape(-1, 1, *padded.shape[2:])
    ones = torch.ones(1, 1, *windows.rule.kernel, dtype=x.dtype, device=x.device)
    sums = _CONVOLUTIONS[num_axes](planes, ones, None, windows.rule.strides, 0, windows.rule.dilations)
    return sums.reshape(*x.shape[:2], *sums.shape[2:])


def _pool_average(x: Tensor, windows: _Windows) -> Tensor:
    mode, pool = windows.ceil_mode(), _AVERAGE_POOLS.get(len(windows.rule.kernel))
    if mode is None or pool is None or any(d > 1 for d in windows.rule.dilations):
        return _window_sums(x, windows) / windows.divisors(x)
    rule = windows.rule
    return pool(x, rule.kernel, rule.strides, rule.begin, mode, rule.counts_padding)


@lowering("MaxPool", since=8)
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    storage_order: int = 0,
    strides: Ints = (),
    num_outputs: int = 1,
    ties: str = "",
) -> tuple[Tensor, ...]:
    """Return the largest of each window and, if asked for, its place in the whole input.

    With ``ties`` (``graph.set_ties``) there is neither padding nor dilation.
    """
    whole = x if x.is_floating_point() else x.to(torch.float32)
    windows = _windows(
        x,
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        rounding="ceil" if ceil_mode else "floor",
    )
    lowest = float("-inf")
    if ties and needs_gradient(whole):
        made: Tensor = _ToAll.apply(whole, _pool_max(whole.detach(), windows, lowest), windows.rule)
        return (made,)
    if num_outputs == 1:
        return (_pool_max(whole, windows, lowest).to(x.dtype),)
    y, places = _max_pool(whole, windows, lowest)
    if storage_order and len(windows.sizes) == 2:
        rows, columns = windows.sizes
        places = places % columns * rows + places // columns
    planes = torch.arange(prod(x.shape[:2]), device=x.device).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    return y.to(x.dtype), places + planes * prod(windows.sizes)


@lowering("AveragePool", since=7)
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Average each window; a part beyond the end padding never counts."""
    windows = _windows(
        x,
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        rounding="ceil" if ceil_mode else "floor",
        count_include_pad=count_include_pad,
    )
    return _pool_average(x, windows)


@lowering("LpPool", since=11)
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Ints = (),
    kernel_shape: Ints,
    p: int = 2,
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Return the p-norm of each window."""
    windows = _windows(
        x,
        kernel_shape,
        strides=strides,
        dilations=dilations,
        pads=pads,
        auto_pad=auto_pad,
        rounding="ceil" if ceil_mode else "floor",
    )
    return _window_sums(x.abs().pow(p), windows).pow(1.0 / p)


@lowering("GlobalAveragePool", since=1)
def global_average_pool(x: Tensor) -> Tensor:
    """Average each channel's plane."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@lowering("GlobalMaxPool", since=1)
def global_max_pool(x: Tensor) -> Tensor:
    """Return the largest of each channel's plane."""
    return x.flatten(2).max(2).values.reshape(*x.shape[:2], *[1] * (x.ndim - 2))


@lowering("GlobalLpPool", since=2)
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """Return the p-norm of each channel's plane."""
    return torch.linalg.vector_norm(x, p, tuple(range(2, x.ndim)), keepdim=True)


@lowering("MaxUnpool", since=9)
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: Ints | None = None,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
) -> Tensor:
    """Put each element back to the place that ``max_pool`` found it at; the rest is zero.

    ONNX counts the places in the smallest input that the pooling can have had; a larger
    ``output_shape`` widens the planes at their ends.
    """
    num_axes = len(kernel_shape)
    stride, padding = per_axis(strides, num_axes), pads or (0,) * (2 * num_axes)
    sizes = [
        (count - 1) * s + k - padding[axis] - padding[axis + num_axes]
        for axis, (count, s, k) in enumerate(zip(x.shape[2:], stride, kernel_shape, strict=True))
    ]
    shape = (*x.shape[:2], *sizes)
    y = torch.zeros(prod(shape), dtype=x.dtype, device=x.device)
    y = y.scatter(0, places.flatten(), x.flatten()).reshape(shape)
    if output_shape is None:
        return y
    return pad(y, [(0, size - own) for size, own in zip(output_shape[2:], sizes, strict=True)])


@lowering("MaxPool", since=1, domain="netweave")
def odd_max_pool(
    x: Tensor, *, kernel_shape: Ints, pads: Ints = (), strides: Ints = (), rounding: str
) -> Tensor:
    """Return the largest of each window by Caffe's or MXNet's rounding; the lowest float if it is empty."""
    windows = _windows(x, kernel_shape, strides=strides, pads=pads, rounding=rounding)
    return _pool_max(x, windows, torch.finfo(x.dtype).min)


@lowering("AveragePool", since=1, domain="netweave")
def odd_average_pool(
    x: Tensor,
    *,
    kernel_shape: Ints,
    pads: Ints = (),
    strides: Ints = (),
    rounding: str,
    count_include_pad: int = 1,
) -> Tensor:
    """Average each window by Caffe's or MXNet's rounding; a part beyond the end padding never counts."""
    windows = _windows(
        x,
        kernel_shape,
        strides=strides,
        pads=pads,
        rounding=rounding,
        count_include_pad=count_include_pad,
    )
    return _pool_average(x, windows)
