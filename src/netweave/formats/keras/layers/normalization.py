"""Normalization layers of Keras (keras/layers/normalization)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from netweave.formats.keras.context import KerasLayer, layer_reader
from netweave.formats.lowering.channels_last import Operand, Stored, Tensor
from netweave.formats.lowering.channels_last.layer import reduce
from netweave.formats.lowering.channels_last.windows import batch_normalization as by_statistics

MAX_ONES = 1 << 24
"""A larger scale of ones is refused, since it is written out."""


def _scale_and_shift(ctx: KerasLayer, shape: Sequence[int]) -> tuple[Stored | None, Stored | None]:
    gamma = ctx.optional_parameter("scale", "gamma", shape, role="gamma")
    return gamma, ctx.optional_parameter("center", "beta", shape, role="beta")


def _axes(ctx: KerasLayer) -> list[int]:
    """Return the axes of the setting, counted from the front, in order."""
    axes = sorted(set(ctx.axes(default=-1)))
    if not axes or 0 in axes:
        raise ctx.unsupported("axis=0, the batch, is not supported")
    return axes


@layer_reader("BatchNormalization", "SyncBatchNormalization")
def batch_normalization(ctx: KerasLayer) -> Tensor:
    """By stored statistics; Keras's eps is 1e-3 and its momentum 0.99 unless the file says otherwise."""
    axis = ctx.axis(ctx.one_axis(-1))
    if axis == 0:
        raise ctx.unsupported("axis=0, the batch, is not supported")
    shape = [ctx.size(axis)]
    gamma, beta = _scale_and_shift(ctx, shape)
    mean = ctx.parameter("moving_mean", shape, role="mean")
    variance = ctx.parameter("moving_variance", shape, role="variance")
    if ctx.training and not ctx.boolean("trainable", True):
        # a frozen one keeps its statistics and uses them, in training too (BatchNormalization.call)
        return _by_arithmetic(ctx, axis, gamma=gamma, beta=beta, mean=mean, variance=variance)
    return by_statistics(
        ctx,
        ctx.x,
        gamma=gamma,
        beta=beta,
        mean=mean,
        variance=variance,
        epsilon=ctx.number("epsilon", 1e-3),
        momentum=ctx.number("momentum", 0.99),
        axis=axis,
    )


def _by_arithmetic(
    ctx: KerasLayer, axis: int, *, gamma: Stored | None, beta: Stored | None, mean: Stored, variance: Stored
) -> Tensor:
    wide = tuple(ctx.size(axis) if at == axis else 1 for at in range(ctx.rank()))
    raised = ctx.broadcast("Add", [variance.reshaped(wide), ctx.scalar(ctx.number("epsilon", 1e-3), ctx.x)])
    centred = ctx.broadcast("Sub", [ctx.x, mean.reshaped(wide)])
    out = ctx.broadcast("Div", [centred, ctx.unary("Sqrt", raised)])
    out = ctx.broadcast("Mul", [out, gamma.reshaped(wide)]) if gamma else out
    ctx.number("momentum", 0.99)
    return ctx.broadcast("Add", [out, beta.reshaped(wide)]) if beta else out


@layer_reader("LayerNormalization")
def layer_normalization(ctx: KerasLayer) -> Tensor:
    """Over one axis or several, each with a scale and a shift for every element of them."""
    if ctx.boolean("rms_scaling", False):
        raise ctx.unsupported(
            "rms_scaling=True, which divides by the variance, is not supported; use RMSNormalization"
        )
    axes, rank = _axes(ctx), ctx.rank()
    sizes = ctx.sizes(axes)
    gamma, beta = _scale_and_shift(ctx, sizes)
    if gamma is None and prod(sizes) > MAX_ONES:
        raise ctx.unsupported(
            f"normalises over {prod(sizes):,} elements without a scale, which is not supported"
        )
    # ONNX normalises over all axes from one on, so the others come first.
    perm = [*(axis for axis in range(rank) if axis not in axes), *axes]
    inputs: list[Operand] = [
        ctx.transpose(ctx.source(ctx.x), perm),
        ctx.in_layout(gamma or Stored.constant(np.ones(sizes, np.float32)), role="gamma"),
    ]
    if beta is not None:
        inputs.append(ctx.in_layout(beta, role="beta"))
    attributes = {"axis": -len(axes), "epsilon": ctx.number("epsilon", 1e-3)}
    normalized = ctx.add("LayerNormalization", inputs, attributes)
    return Tensor(ctx.transpose(normalized, [perm.index(axis) for axis in range(rank)]))


@layer_reader("RMSNormalization")
def rms_normalization(ctx: KerasLayer) -> Tensor:
    """``x * rsqrt(mean(x * x) + eps) * scale`` over one axis or several."""
    x, axes = ctx.x, _axes(ctx)
    mean = reduce(ctx, "ReduceMean", ctx.elementwise("square", x), axes, keep=True)
    raised = ctx.broadcast("Add", [mean, ctx.scalar(ctx.number("epsilon", 1e-6), x)])
    normalized = ctx.broadcast("Div", [x, ctx.unary("Sqrt", raised)])
    sizes = dict(zip(axes, ctx.sizes(axes), strict=True))
    scale = ctx.parameter("scale", [*sizes.values()], role="gamma")
    wide = tuple(sizes.get(axis, 1) for axis in range(ctx.rank()))
    return ctx.broadcast("Mul", [normalized, scale.reshaped(wide)])


@layer_reader("UnitNormalization")
def unit_normalization(ctx: KerasLayer) -> Tensor:
    """To length 1 over some axes."""
    return unit_length(ctx, ctx.x, _axes(ctx))


def unit_length(ctx: KerasLayer, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return vectors of length 1; one below 1e-6 counts as 1e-6 (``tf.linalg.l2_normalize``)."""
    squares = reduce(ctx, "ReduceSum", ctx.elementwise("square", x), axes, keep=True)
    least = ctx.broadcast("Max", [squares, ctx.scalar(1e-12, x)])
    return ctx.broadcast("Div", [x, ctx.unary("Sqrt", least)])


@layer_reader("GroupNormalization")
def group_normalization(ctx: KerasLayer) -> Tensor:
    """Over groups of channels and all places."""
    axis, rank = ctx.axis(ctx.one_axis(-1)), ctx.rank()
    if axis not in {1, rank - 1}:
        raise ctx.unsupported(f"axis={axis} of {rank}: only axis 1 and the last one are supported")
    last = axis == rank - 1
    channels, groups = ctx.channels(last=last), ctx.integer("groups", 32)
    groups = channels if groups == -1 else groups
    if groups < 1 or channels % groups:
        raise ctx.shape_error(f"{channels} channels cannot be divided into {groups} groups")
    gamma, beta = _scale_and_shift(ctx, (channels,))
    inputs = [
        ctx.ordered(ctx.x, first=last),
        gamma or ctx.constant([1.0] * channels),
        beta or ctx.constant([0.0] * channels),
    ]
    attributes = {"num_groups": groups, "epsilon": ctx.number("epsilon", 1e-3)}
    return Tensor(ctx.add("GroupNormalization", inputs, attributes), first=last and rank > 2)


@layer_reader("LayerScale")
def layer_scale(ctx: KerasLayer) -> Tensor:
    """Times a stored number for each channel (keras/applications/convnext)."""
    ctx.number("init_values", 1e-6)  # the first values of gamma
    gamma = ctx.parameter("gamma", (ctx.positive("projection_dim"),), role="gamma")
    return ctx.broadcast("Mul", [ctx.x, gamma])
