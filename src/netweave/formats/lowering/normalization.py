"""Normalisations whose axis may be any: ONNX has channels on axis 1, and layers on the last axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.graph import Statistics, set_statistics

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import onnx_ir as ir

    from netweave.formats.lowering.context import LayerContext


def with_axes_swapped(
    ctx: LayerContext, x: ir.Value, first: int, second: int, compute: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Compute with two axes exchanged, and exchange them back in the result.

    Args:
        ctx: The layer.
        x: The value.
        first: An axis, counted from the front.
        second: The axis it changes places with; nothing is transposed if it is the same.
        compute: What to do; it keeps the sizes.
    """
    perm = list(range(ctx.rank(x)))
    perm[first], perm[second] = perm[second], perm[first]
    return ctx.transpose(compute(ctx.transpose(x, perm)), perm)


def batch_normalization(
    ctx: LayerContext,
    x: ir.Value,
    *,
    gamma: ir.Value | None,
    beta: ir.Value | None,
    mean: ir.Value,
    variance: ir.Value,
    epsilon: float,
    momentum: float | None = None,
    axis: int = 1,
    statistics: Statistics | None = None,
    training: bool = False,
    name: str = "",
) -> ir.Value:
    """Normalise by channel, with the statistics that are stored.

    Args:
        ctx: The layer.
        x: What is normalised.
        gamma: Scale of each channel; None for 1.
        beta: Shift of each channel; None for 0.
        mean: Stored means.
        variance: Stored variances.
        epsilon: Added to the variance.
        momentum: Share of the stored statistics that a step of training keeps.
        axis: The axis of the channels, counted from the front.
        statistics: How training changes the stored statistics, where that is not ONNX's rule.
        training: Whether the batch's own statistics are used.
        name: Name of the output.
    """
    channels = (gamma, beta, mean, variance)
    vectors = [
        vector if vector is not None else fixed_vector(ctx, mean, number)
        for vector, number in zip(channels, (1.0, 0.0, 0.0, 1.0), strict=True)
    ]
    attributes: Mapping[str, float | None] = {
        "epsilon": epsilon,
        "momentum": momentum,
        "training_mode": 1 if training else None,
    }

    def normalise(channels_second: ir.Value) -> ir.Value:
        outputs = ctx.builder.add_many(
            "BatchNormalization",
            [channels_second, *vectors],
            attributes,
            # ONNX has the new statistics as further outputs of a node in training mode.
            outputs=[name if axis == 1 else "", *([""] * 2 if training else [])],
        )
        if statistics is not None:
            set_statistics(outputs[0], statistics)
        return outputs[0]

    return normalise(x) if axis == 1 else with_axes_swapped(ctx, x, 1, axis, normalise)


def fixed_vector(ctx: LayerContext, like: ir.Value, number: float) -> ir.Value:
    """Return a constant vector of one number, of the size of another vector."""
    return ctx.constant(np.full(ctx.size(0, like), number, np.float32))


def layer_normalization(
    ctx: LayerContext,
    x: ir.Value,
    *,
    gamma: ir.Value,
    beta: ir.Value | None,
    epsilon: float,
    axis: int,
) -> ir.Value:
    """Normalise over one axis, with a scale and a shift for each of its elements.

    Args:
        ctx: The layer.
        x: What is normalised.
        gamma: Scales.
        beta: Shifts; None for 0.
        epsilon: Added to the variance.
        axis: The axis, counted from the front.
    """
    inputs = [gamma] if beta is None else [gamma, beta]
    attributes = {"axis": -1, "epsilon": epsilon}
    return with_axes_swapped(
        ctx,
        x,
        axis,
        ctx.rank(x) - 1,
        lambda last: ctx.add("LayerNormalization", [last, *inputs], attributes),
    )
