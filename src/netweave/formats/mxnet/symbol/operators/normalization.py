"""Normalization operators of MXNet (batch_norm-inl.h, lrn-inl.h)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import onnx_ir as ir

from netweave.formats.lowering.elementwise import batch_normalization, layer_normalization
from netweave.formats.mxnet.symbol.registry import operator_reader
from netweave.graph import Statistics

if TYPE_CHECKING:
    from netweave.formats.mxnet.symbol.context import MXNetOperator


BATCH_NORM = ("data", "gamma", "beta", "moving_mean", "moving_var")


@operator_reader(
    "BatchNorm", "BatchNorm_v1", "CuDNNBatchNorm", "_contrib_SyncBatchNorm", arguments=BATCH_NORM
)
def batch_norm(ctx: MXNetOperator) -> ir.Value:
    """With ``fix_gamma``, the default, the scale is 1 whatever is stored."""
    settings = ctx.settings
    settings.ignore("ndev", "key")
    _check_single_output(ctx)
    axis = ctx.axis(settings.integer("axis", 1))
    sizes = (ctx.open_size(axis),)
    is_fixed = settings.flag("fix_gamma", True)
    gamma = ctx.fixed_parameter("gamma", sizes, 1.0) if is_fixed else ctx.parameter("gamma", sizes)
    beta, mean, variance = (ctx.parameter(name, sizes) for name in BATCH_NORM[2:])
    return batch_normalization(
        ctx,
        ctx.x,
        gamma=gamma,
        beta=beta,
        mean=mean,
        variance=variance,
        epsilon=settings.number("eps", 1e-3),
        momentum=settings.number("momentum", 0.9),
        axis=axis,
        statistics=Statistics(fixed=settings.flag("use_global_stats", False)),
    )


@operator_reader("LRN")
def lrn(ctx: MXNetOperator) -> ir.Value:
    """``x * (knorm + alpha / nsize * sum of squares) ** -beta`` over channels, as in ONNX."""
    settings = ctx.settings
    return ctx.add(
        "LRN",
        [ctx.x],
        {
            "alpha": settings.number("alpha", 1e-4),
            "beta": settings.number("beta", 0.75),
            "bias": settings.number("knorm", 2.0),
            "size": settings.integer("nsize"),
        },
    )


@operator_reader("L2Normalization")
def l2_normalization(ctx: MXNetOperator) -> ir.Value:
    """``x / sqrt(sum of squares + eps)`` over each element of the batch, its channels, or its positions."""
    settings = ctx.settings
    mode = settings.choice("mode", ("instance", "channel", "spatial"), "instance")
    rank = ctx.rank()
    axes = {"instance": range(1, rank), "channel": [1], "spatial": range(2, rank)}[mode]
    squares = ctx.add("ReduceSumSquare", [ctx.x, ctx.integers(axes)], {"keepdims": 1})
    padded = ctx.add("Add", [squares, ctx.scalar(settings.number("eps", 1e-10), ctx.x)])
    return ctx.add("Div", [ctx.x, ctx.add("Sqrt", [padded])])


@operator_reader("InstanceNorm", arguments=("data", "gamma", "beta"))
def instance_norm(ctx: MXNetOperator) -> ir.Value:
    """Each channel of each element of the batch by itself."""
    scale, shift = (ctx.parameter(name, (ctx.open_size(1),)) for name in ("gamma", "beta"))
    attributes = {"epsilon": ctx.settings.number("eps", 1e-3)}
    return ctx.add("InstanceNormalization", [ctx.x, scale, shift], attributes)


@operator_reader("LayerNorm", arguments=("data", "gamma", "beta"))
def layer_norm(ctx: MXNetOperator) -> ir.Value:
    """Over one axis, the last by default."""
    _check_single_output(ctx)
    axis = ctx.axis(ctx.settings.integer("axis", -1))
    gamma, beta = (ctx.parameter(name, (ctx.open_size(axis),)) for name in ("gamma", "beta"))
    eps = ctx.settings.number("eps", 1e-5)
    return layer_normalization(ctx, ctx.x, gamma=gamma, beta=beta, epsilon=eps, axis=axis)


@operator_reader("GroupNorm", arguments=("data", "gamma", "beta"))
def group_norm(ctx: MXNetOperator) -> ir.Value:
    """Groups of channels of each element of the batch, with one scale and shift for each group."""
    _check_single_output(ctx)
    groups, channels = ctx.settings.count("num_groups", 1), ctx.size(1)
    ctx.check_groups(groups, [channels], setting="num_groups")
    owners = ctx.array(ctx.arange(channels) * groups // channels)
    scale, shift = (ctx.add("Gather", [ctx.parameter(name, (groups,)), owners]) for name in ("gamma", "beta"))
    attributes = {"num_groups": groups, "epsilon": ctx.settings.number("eps", 1e-5)}
    return ctx.add("GroupNormalization", [ctx.x, scale, shift], attributes)


def _check_single_output(ctx: MXNetOperator) -> None:
    if ctx.settings.flag("output_mean_var", False):
        raise ctx.unsupported("output_mean_var=True: the mean and the variance as outputs are not supported")
