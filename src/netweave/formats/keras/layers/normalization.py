"""Normalisations (keras/layers/normalization)."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from netweave.files.channels_last import Stored, Tensor
from netweave.files.channels_last.axes import reduce, transpose
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.files.channels_last.normalisation import batch_normalisation, layer_normalisation
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.channels_last import Operand
    from netweave.formats.keras.call import Call


MAX_ONES = 1 << 24
"""A larger scale of ones is refused, since it is written out."""


def _axis(call: Call, default: int = -1) -> int:
    """Return the one axis of the setting, counted from the front."""
    axis = call.setting("axis", default)
    if isinstance(axis, list) and len(axis) == 1:
        (axis,) = axis
    if not isinstance(axis, int):
        raise call.refuse(f"axis={axis!r:.40}: only one axis is read")
    return call.writer.axis(axis, len(call.shape(call.x)))


@layer_reader("BatchNormalization", "SyncBatchNormalization")
def batch_normalization(call: Call) -> Tensor:
    """By stored statistics; Keras's eps is 1e-3 and its momentum 0.99 unless the file says otherwise."""
    axis, rank = _axis(call), len(call.shape(call.x))
    if axis == 0:
        raise call.refuse("axis=0, the batch, is not read")
    size = call.writer.known(call.x, [axis])
    x, inner = call.x, axis not in {1, rank - 1}
    if inner:
        x = _swapped(call, x, axis)
    gamma = call.stored("gamma", size, role="gamma") if call.flag("scale", True) else None
    beta = call.stored("beta", size, role="beta") if call.flag("center", True) else None
    made = batch_normalisation(
        call.writer,
        x,
        gamma=gamma,
        beta=beta,
        mean=call.stored("moving_mean", size, role="mean"),
        variance=call.stored("moving_variance", size, role="variance"),
        eps=call.real("epsilon", 1e-3),
        momentum=call.real("momentum", 0.99),
        last=inner or axis == rank - 1,
    )
    return _swapped(call, made, axis) if inner else made


def _swapped(call: Call, x: Tensor, axis: int) -> Tensor:
    """Return a tensor with an axis and the last one exchanged."""
    perm = list(range(len(call.shape(x))))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    return transpose(call.writer, x, perm)


@layer_reader("LayerNormalization")
def layer_normalization(call: Call) -> Tensor:
    """Over one axis or several, each with a scale and a shift for every element of them."""
    if call.flag("rms_scaling", False):
        raise call.refuse(
            "rms_scaling=True, which divides by the variance, is not read; use RMSNormalization"
        )
    axes, rank = _axes(call), len(call.shape(call.x))
    sizes = call.writer.known(call.x, axes)
    eps = call.real("epsilon", 1e-3)
    gamma = call.stored("gamma", sizes, role="gamma") if call.flag("scale", True) else None
    beta = call.stored("beta", sizes, role="beta") if call.flag("center", True) else None
    if axes == [rank - 1]:
        return layer_normalisation(call.writer, call.x, gamma=gamma, beta=beta, eps=eps)
    others = [axis for axis in range(rank) if axis not in axes]
    perm = [*others, *axes]
    if gamma is None and prod(sizes) > MAX_ONES:
        raise call.refuse(f"normalises over {prod(sizes):,} numbers without a scale, which is not read")
    scale: Operand = gamma or Stored.constant(np.ones(sizes, np.float32))
    more = [call.writer.source(beta)] if beta is not None else []
    turned = call.writer.source(transpose(call.writer, call.x, perm) if perm != sorted(perm) else call.x)
    attributes = {"axis": len(others), "epsilon": eps}
    made = call.writer.add("LayerNormalization", [turned, call.writer.source(scale), *more], attributes)
    if perm == sorted(perm):
        return Tensor(made)
    return transpose(call.writer, Tensor(made), [perm.index(axis) for axis in range(rank)])


@layer_reader("RMSNormalization")
def rms_normalization(call: Call) -> Tensor:
    """``x * rsqrt(mean(x * x) + eps) * scale`` over one axis or several."""
    writer, x, axes = call.writer, call.x, _axes(call)
    mean = reduce(writer, "ReduceMean", broadcast(writer, "Mul", [x, x]), axes, keep=True)
    raised = broadcast(writer, "Add", [mean, Tensor(writer.number(call.real("epsilon", 1e-6), x.value))])
    made = broadcast(writer, "Div", [x, unary(writer, "Sqrt", raised)])
    sizes = writer.known(x, axes)
    rank = len(call.shape(x))
    wide = [sizes[axes.index(axis)] if axis in axes else 1 for axis in range(rank)]
    scale = call.stored("scale", sizes, role="gamma").reshaped(tuple(wide))
    return broadcast(writer, "Mul", [made, scale])


@layer_reader("UnitNormalization")
def unit_normalization(call: Call) -> Tensor:
    """To length 1 over some axes."""
    return unit_length(call, call.x, _axes(call))


def unit_length(call: Call, x: Tensor, axes: Sequence[int]) -> Tensor:
    """Return vectors of length 1; one below 1e-6 counts as 1e-6 (``tf.linalg.l2_normalize``)."""
    writer = call.writer
    squares = reduce(writer, "ReduceSum", broadcast(writer, "Mul", [x, x]), axes, keep=True)
    least = broadcast(writer, "Max", [squares, Tensor(writer.number(1e-12, x.value))])
    return broadcast(writer, "Div", [x, unary(writer, "Sqrt", least)])


def _axes(call: Call) -> list[int]:
    """Return the axes of the setting, counted from the front, in order."""
    value = call.setting("axis", -1)
    axes = value if isinstance(value, (list, tuple)) else [value]
    if not axes or not all(isinstance(axis, int) for axis in axes):
        raise call.wrong(f"axis={value!r:.40}, expected whole numbers")
    rank = len(call.shape(call.x))
    found = sorted({call.writer.axis(axis, rank) for axis in axes})
    if 0 in found:
        raise call.refuse("axis=0, the batch, is not read")
    return found


@layer_reader("GroupNormalization")
def group_normalization(call: Call) -> Tensor:
    """Over groups of channels and all places."""
    axis, rank = _axis(call), len(call.shape(call.x))
    if axis not in {1, rank - 1}:
        raise call.refuse(f"axis={axis} of {rank}: only axis 1 and the last one are read")
    last = axis == rank - 1
    channels, groups = call.channels(last=last), call.whole("groups", 32)
    groups = channels if groups == -1 else groups
    if groups < 1 or channels % groups:
        raise call.wrong(f"{channels} channels do not make {groups} groups")
    gamma, beta = _affine(call, channels)
    writer = call.writer
    ones = [1.0] * channels
    scale = writer.stored(gamma) if gamma is not None else writer.builder.constant(ones)
    shift = writer.stored(beta) if beta is not None else writer.builder.constant([0.0] * channels)
    attributes = {"num_groups": groups, "epsilon": call.real("epsilon", 1e-3)}
    value = writer.first(call.x) if last else writer.source(call.x)
    made = writer.add("GroupNormalization", [value, scale, shift], attributes)
    return Tensor(made, first=last and rank > 2)


@layer_reader("LayerScale")
def layer_scale(call: Call) -> Tensor:
    """Times a stored number for each channel (keras/applications/convnext)."""
    gamma = call.stored("gamma", (call.count("projection_dim"),), role="gamma")
    return broadcast(call.writer, "Mul", [call.x, gamma])


def _affine(call: Call, channels: int) -> tuple[Stored | None, Stored | None]:
    gamma = call.stored("gamma", (channels,), role="gamma") if call.flag("scale", True) else None
    beta = call.stored("beta", (channels,), role="beta") if call.flag("center", True) else None
    return gamma, beta
