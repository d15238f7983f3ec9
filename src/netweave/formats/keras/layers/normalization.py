"""Normalisations (keras/layers/normalization)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import Tensor
from netweave.files.channels_last.elementwise import broadcast
from netweave.files.channels_last.normalisation import batch_normalisation, layer_normalisation
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Stored
    from netweave.formats.keras.call import Call


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
    if axis not in {1, rank - 1}:
        raise call.refuse(f"axis={axis} of {rank}: only axis 1 and the last one are read")
    size = call.writer.known(call.x, [axis])
    gamma = call.stored("gamma", size, role="gamma") if call.flag("scale", True) else None
    beta = call.stored("beta", size, role="beta") if call.flag("center", True) else None
    return batch_normalisation(
        call.writer,
        call.x,
        gamma=gamma,
        beta=beta,
        mean=call.stored("moving_mean", size, role="mean"),
        variance=call.stored("moving_variance", size, role="variance"),
        eps=call.real("epsilon", 1e-3),
        momentum=call.real("momentum", 0.99),
        last=axis == rank - 1,
    )


@layer_reader("LayerNormalization")
def layer_normalization(call: Call) -> Tensor:
    """Over the last axis."""
    if _axis(call) != len(call.shape(call.x)) - 1:
        raise call.refuse("an axis other than the last one is not read")
    if call.flag("rms_scaling", False):
        raise call.refuse("rms_scaling=True is not read")
    gamma, beta = _affine(call, call.channels())
    return layer_normalisation(call.writer, call.x, gamma=gamma, beta=beta, eps=call.real("epsilon", 1e-3))


@layer_reader("GroupNormalization")
def group_normalization(call: Call) -> Tensor:
    """Over groups of channels and all places."""
    if _axis(call) != len(call.shape(call.x)) - 1:
        raise call.refuse("an axis other than the last one is not read")
    channels, groups = call.channels(), call.whole("groups", 32)
    groups = channels if groups == -1 else groups
    if groups < 1 or channels % groups:
        raise call.wrong(f"{channels} channels do not make {groups} groups")
    gamma, beta = _affine(call, channels)
    writer = call.writer
    ones = [1.0] * channels
    scale = writer.stored(gamma) if gamma is not None else writer.builder.constant(ones)
    shift = writer.stored(beta) if beta is not None else writer.builder.constant([0.0] * channels)
    attributes = {"num_groups": groups, "epsilon": call.real("epsilon", 1e-3)}
    return Tensor(
        writer.add("GroupNormalization", [writer.first(call.x), scale, shift], attributes), first=True
    )


@layer_reader("LayerScale")
def layer_scale(call: Call) -> Tensor:
    """Times a stored number for each channel (keras/applications/convnext)."""
    gamma = call.stored("gamma", (call.count("projection_dim"),), role="gamma")
    return broadcast(call.writer, "Mul", [call.x, gamma])


def _affine(call: Call, channels: int) -> tuple[Stored | None, Stored | None]:
    gamma = call.stored("gamma", (channels,), role="gamma") if call.flag("scale", True) else None
    beta = call.stored("beta", (channels,), role="beta") if call.flag("center", True) else None
    return gamma, beta
