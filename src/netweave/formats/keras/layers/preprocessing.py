"""Layers that bring images into form (keras/layers/preprocessing)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from netweave.formats.keras.registry import layer_reader
from netweave.formats.lowering.channels_last import Stored
from netweave.formats.lowering.channels_last.axes import cut
from netweave.formats.lowering.channels_last.resizing import resize

if TYPE_CHECKING:
    from netweave.formats.keras.context import KerasLayer
    from netweave.formats.lowering.channels_last import Tensor

METHODS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
RANDOM = (
    "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation",
    "RandomZoom",
)  # fmt: skip


@layer_reader("Rescaling")
def rescaling(ctx: KerasLayer) -> Tensor:
    """``x * scale + offset``."""
    scaled = ctx.broadcast("Mul", [_as_float(ctx), _constant(ctx, "scale", 1.0)])
    offset = _constant(ctx, "offset", 0.0)
    return ctx.broadcast("Add", [scaled, offset]) if np.any(offset.array) else scaled


@layer_reader("Normalization")
def normalization(ctx: KerasLayer) -> Tensor:
    """``(x - mean) / max(sqrt(variance), 1e-7)`` over the last axis; ``invert`` is the way back."""
    axis = ctx.one_axis(-1)
    if ctx.axis(axis) != ctx.rank() - 1:
        raise ctx.unsupported(f"axis={axis}: only the last one is supported")
    if ctx.setting("mean") is not None:
        mean, variance = _constant(ctx, "mean", 0.0), _constant(ctx, "variance", 1.0)
    else:
        mean, variance = (ctx.parameter(name, (ctx.channels(),), role=name) for name in ("mean", "variance"))
    smallest = Stored.constant(np.asarray(1e-7, np.float32))
    deviation = ctx.broadcast("Max", [ctx.unary("Sqrt", variance), smallest])
    if ctx.boolean("invert", False):
        return ctx.broadcast("Add", [mean, ctx.broadcast("Mul", [_as_float(ctx), deviation])])
    return ctx.broadcast("Div", [ctx.broadcast("Sub", [_as_float(ctx), mean]), deviation])


@layer_reader("Resizing")
def resizing(ctx: KerasLayer) -> Tensor:
    """To a height and a width."""
    if ctx.boolean("crop_to_aspect_ratio", False) or ctx.boolean("pad_to_aspect_ratio", False):
        raise ctx.unsupported("keeping the aspect ratio is not supported")
    method = METHODS[ctx.string("interpolation", "bilinear", tuple(METHODS))]
    sizes = [ctx.positive("height"), ctx.positive("width")]
    return resize(ctx, ctx.x, method=method, convention="half", sizes=sizes, last=ctx.is_last())


@layer_reader("CenterCrop")
def center_crop(ctx: KerasLayer) -> Tensor:
    """The middle of an image."""
    places = (1, 2) if ctx.is_last() else (2, 3)
    sizes, wanted = ctx.sizes(places), [ctx.positive("height"), ctx.positive("width")]
    begins = [int((size - goal) / 2) for size, goal in zip(sizes, wanted, strict=True)]
    if min(begins) < 0:
        raise ctx.unsupported(f"crops {sizes} to {wanted}, which Keras does by resizing")
    rows = zip(places, begins, wanted, strict=True)
    return cut(ctx, ctx.x, {axis: (begin, begin + size, 1) for axis, begin, size in rows})


@layer_reader(*RANDOM, only_in_training=True)
def random(ctx: KerasLayer) -> Tensor:
    """Nothing is disturbed in a net that predicts; training with them is not supported."""
    if ctx.training:
        raise ctx.unsupported(f"training with {ctx.type} is not supported; change the images beforehand")
    return ctx.copied(ctx.x)


def _constant(ctx: KerasLayer, name: str, default: float) -> Stored:
    try:
        array = np.asarray(ctx.setting(name, default), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ctx.setting_error(name, "numbers") from error
    return Stored.constant(array)


def _as_float(ctx: KerasLayer) -> Tensor:
    dtype = ctx.x.value.dtype
    is_integer = dtype is not None and not dtype.is_floating_point()
    return ctx.as_type(ctx.x, ir.DataType.FLOAT) if is_integer else ctx.x
