"""Pooling (pooling-inl.h): ``valid`` rounds down, ``full`` rounds up and never drops a window.

MXNet up to 0.7 rounded up and divided averages by the whole kernel; its files do not say so, and newer
versions read them with ``valid``. So does this reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import onnx_ir as ir

from netweave.formats.lowering.windows import Window
from netweave.formats.mxnet.symbol.context import LAYOUTS, MXNetOperator, channels_first, channels_last
from netweave.formats.mxnet.symbol.operators.elementwise import signed_cube_root
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.formats.mxnet.symbol.settings import is_channels_last
from netweave.graph import set_ties
from netweave.graph.ops.pooling import pooling

ROUNDINGS = {"valid": "floor", "full": "full"}
KINDS = ("max", "avg", "sum", "lp")


@operator_reader("Pooling")
def pool(ctx: MXNetOperator) -> ir.Value:
    """Windows of maximum, average, sum or norm."""
    kind = ctx.settings.choice("pool_type", KINDS, "max")
    last = is_channels_last(ctx.settings.choice("layout", LAYOUTS, None))
    p = ctx.settings.integer("p_value", 2)
    x = channels_first(ctx, ctx.x, last)
    if ctx.settings.flag("global_pool", False):
        ctx.settings.ignore("kernel", "stride", "pad", "pooling_convention", "count_include_pad")
        return channels_last(ctx, _global(ctx, x, kind, p), last)
    window, convention = _window(ctx, x), _convention(ctx)
    if kind in {"sum", "lp"}:
        y = _summed(ctx, x, window, convention, p=p if kind == "lp" else 1)
    elif convention == "same":
        y = _same(ctx, x, kind, window)
    else:
        domain, op_type, attributes = pooling(
            kind == "avg",
            kernel=window.kernel,
            strides=window.strides,
            pads=window.onnx_pads,
            rounding=ROUNDINGS[convention],
            count_include_pad=ctx.settings.flag("count_include_pad", True),
        )
        y = ctx.add(op_type, [x], attributes, domain=domain)
    return channels_last(ctx, y, last)


@operator_reader("Pooling_v1")
def pool_v1(ctx: MXNetOperator) -> ir.Value:
    """The older kernels (pooling_v1-inl.h): zeros around the input count, in a maximum too.

    Averages are divided by the whole window. A window that would start beyond the padding is dropped.
    """
    kind = ctx.settings.choice("pool_type", KINDS[:3], "max")
    x = ctx.x
    if ctx.settings.flag("global_pool", False):
        ctx.settings.ignore("kernel", "stride", "pad", "pooling_convention")
        return _global(ctx, x, kind, 1)
    window, convention = _window(ctx, x), _convention(ctx)
    if kind == "max":
        padded = _padded(ctx, x, window.pads, window.pads)
        attributes = {
            "kernel_shape": window.kernel,
            "strides": window.strides,
            "ceil_mode": int(convention == "full"),
        }
        return set_ties(ctx.add("MaxPool", [padded], attributes), "all")
    total = _summed(ctx, x, window, convention, p=1, clip=True)
    return total if kind == "sum" else ctx.add("Div", [total, ctx.scalar(prod(window.kernel), x)])


@operator_reader("_contrib_AdaptiveAvgPooling2D")
def adaptive_average(ctx: MXNetOperator) -> ir.Value:
    """Average to a given height and width, where these divide the input's."""
    size = ctx.settings.integers("output_size", ()) or (1,)
    height, width = (size[0], size[-1])
    if min(size) < 1:
        raise ctx.read_error(f"output_size={size}, expected 1 or more")
    if (height, width) == (1, 1):
        return ctx.add("GlobalAveragePool", [ctx.x])
    sizes = ctx.sizes((2, 3))
    if sizes[0] % height or sizes[1] % width:
        raise ctx.unsupported(
            f"output_size {height}x{width} does not divide the input's {sizes[0]}x{sizes[1]}"
        )
    kernel = [sizes[0] // height, sizes[1] // width]
    return ctx.add("AveragePool", [ctx.x], {"kernel_shape": kernel, "strides": kernel})


def _window(ctx: MXNetOperator, x: ir.Value) -> Window:
    settings, kernel = ctx.settings, ctx.settings.kernel()
    rank = len(kernel)
    if ctx.rank(x) != rank + 2:
        raise ctx.shape_error(f"its input has {ctx.rank(x)} axes, its kernel needs {rank + 2}")
    window = Window(
        kernel, strides=settings.per_axis("stride", rank, 1), pads=settings.per_axis("pad", rank, 0)
    )
    window.check_fits(ctx, ctx.shape(x)[2:])
    return window


def _convention(ctx: MXNetOperator) -> str:
    return ctx.settings.choice("pooling_convention", (*ROUNDINGS, "same"), "valid")


def _end_pads(window: Window, sizes: Sequence[int], convention: str, *, clip: bool = False) -> list[int]:
    """Return how far beyond each axis the last window reaches.

    Args:
        window: The window.
        sizes: The spatial sizes of the input.
        convention: ``full`` or ``same``.
        clip: Drop a last window that would start beyond the padding.
    """
    ends = []
    for size, kernel, stride, pad in zip(sizes, window.kernel, window.strides, window.pads, strict=True):
        padded = size + 2 * pad
        last = -(-padded // stride) - 1 if convention == "same" else -(-(padded - kernel) // stride)
        if clip:
            last = min(last, (padded - 1) // stride)
        ends.append(max(last * stride + kernel - size - pad, 0))
    return ends


def _same(ctx: MXNetOperator, x: ir.Value, kind: str, window: Window) -> ir.Value:
    """``ceil((size + 2 pad) / stride)`` windows, which MXNet has for a maximum only."""
    if kind != "max":
        raise ctx.read_error(f"pooling_convention is 'same' with pool_type {kind!r}, expected 'max'")
    ends = _end_pads(window, ctx.sizes(range(2, ctx.rank(x)), x), "same")
    attributes = {"kernel_shape": window.kernel, "strides": window.strides, "pads": [*window.pads, *ends]}
    return ctx.add("MaxPool", [x], attributes)


def _global(ctx: MXNetOperator, x: ir.Value, kind: str, p: int) -> ir.Value:
    if kind in {"max", "avg"}:
        return ctx.add("GlobalMaxPool" if kind == "max" else "GlobalAveragePool", [x])
    axes = ctx.integers(range(2, ctx.rank(x)))
    powers = _power(ctx, x, p if kind == "lp" else 1)
    return _root(ctx, ctx.add("ReduceSum", [powers, axes], {"keepdims": 1}), p if kind == "lp" else 1)


def _summed(
    ctx: MXNetOperator, x: ir.Value, window: Window, convention: str, *, p: int, clip: bool = False
) -> ir.Value:
    """Sums of the powers ``p`` in each window, and their root; zeros around the input count."""
    ends = window.pads
    if convention != "valid":
        ends = _end_pads(window, ctx.sizes(range(2, ctx.rank(x)), x), convention, clip=clip)
    powers = _power(ctx, _padded(ctx, x, window.pads, ends), p)
    means = ctx.add("AveragePool", [powers], {"kernel_shape": window.kernel, "strides": window.strides})
    return _root(ctx, ctx.add("Mul", [means, ctx.scalar(prod(window.kernel), x)]), p)


def _padded(ctx: MXNetOperator, x: ir.Value, begins: Sequence[int], ends: Sequence[int]) -> ir.Value:
    if not any(begins) and not any(ends):
        return x
    return ctx.add("Pad", [x, ctx.integers([0, 0, *begins, 0, 0, *ends])])


def _power(ctx: MXNetOperator, x: ir.Value, p: int) -> ir.Value:
    """``x ** p`` with its sign: MXNet takes no absolute values."""
    if p not in {1, 2, 3}:
        raise ctx.read_error(f"p_value={p}, expected 1, 2 or 3")
    power = x
    for _ in range(p - 1):
        power = ctx.add("Mul", [power, x])
    return power


def _root(ctx: MXNetOperator, x: ir.Value, p: int) -> ir.Value:
    if p == 1:
        return x
    return ctx.add("Sqrt", [x]) if p == 2 else signed_cube_root(ctx, x)
