"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering import normalization
from netweave.formats.lowering.channels_last.tensor import Operand, Tensor

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last.layer import ChannelsLastLayer


def batch_normalization(
    ctx: ChannelsLastLayer,
    x: Operand,
    *,
    gamma: Operand | None,
    beta: Operand | None,
    mean: Operand,
    variance: Operand,
    epsilon: float,
    momentum: float = 0.9,
    axis: int = -1,
) -> Tensor:
    """Add a normalisation by stored statistics.

    Args:
        ctx: The layer.
        x: The tensor.
        gamma: Scale by channel; None for 1.
        beta: Shift by channel; None for 0.
        mean: Mean by channel.
        variance: Variance by channel.
        epsilon: What is added to the variance.
        momentum: What of the stored statistics a step of training keeps.
        axis: The source's axis of the channels.
    """
    rank = ctx.rank(x)
    axis = ctx.axis(axis, rank)
    first = axis == rank - 1
    value = normalization.batch_normalization(
        ctx,
        ctx.ordered(x, first=first),
        gamma=None if gamma is None else ctx.in_layout(gamma, role="gamma"),
        beta=None if beta is None else ctx.in_layout(beta, role="beta"),
        mean=ctx.in_layout(mean, role="mean"),
        variance=ctx.in_layout(variance, role="variance"),
        epsilon=epsilon,
        momentum=momentum,
        axis=1 if first else axis,
    )
    return Tensor(value, first and rank > 2)
