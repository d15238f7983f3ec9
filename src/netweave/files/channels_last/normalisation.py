"""Normalisations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last.tensor import Operand, Stored, Tensor

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.files.channels_last.writer import Writer


def batch_normalisation(
    writer: Writer,
    x: Operand,
    *,
    gamma: Operand | None,
    beta: Operand | None,
    mean: Operand,
    variance: Operand,
    eps: float,
    momentum: float = 0.9,
    last: bool = True,
) -> Tensor:
    """Write a normalisation by stored statistics.

    Args:
        writer: Where to.
        x: The tensor; its channels are on the last axis, or on axis 1.
        gamma: Scale by channel; None for 1.
        beta: Shift by channel; None for 0.
        mean: Mean by channel.
        variance: Variance by channel.
        eps: What is added to the variance.
        momentum: What of the stored statistics a step of training keeps.
        last: Whether the source has the channels on the last axis.
    """
    value = writer.first(x) if last else writer.source(x)
    (channels,) = writer.known(mean, [0])
    vectors = [
        _vector(writer, array, role, channels)
        for array, role in ((gamma, "gamma"), (beta, "beta"), (mean, "mean"), (variance, "variance"))
    ]
    made = writer.add("BatchNormalization", [value, *vectors], {"epsilon": eps, "momentum": momentum})
    return Tensor(made, last and len(writer.shape(x)) > 2)


def layer_normalisation(
    writer: Writer, x: Operand, *, gamma: Operand | None, beta: Operand | None, eps: float
) -> Tensor:
    """Write a normalisation over the last axis."""
    (size,) = writer.known(x, [-1])
    scale = _vector(writer, gamma, "gamma", size)
    shift = [_vector(writer, beta, "beta", size)] if beta is not None else []
    attributes = {"axis": -1, "epsilon": eps}
    return Tensor(writer.add("LayerNormalization", [writer.source(x), scale, *shift], attributes))


def _vector(writer: Writer, array: Operand | None, role: str, size: int) -> ir.Value:
    if array is None:
        same = np.full(size, 1.0 if role == "gamma" else 0.0, np.float32)
        return writer.builder.constant(same, dtype=np.float32)
    return writer.stored(array, role=role) if isinstance(array, Stored) else writer.source(array)
