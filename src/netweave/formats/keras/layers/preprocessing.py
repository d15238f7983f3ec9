"""Layers that bring images into form (keras/layers/preprocessing)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.files.channels_last import Stored
from netweave.files.channels_last.axes import cut
from netweave.files.channels_last.elementwise import broadcast, unary
from netweave.files.channels_last.resizing import resize
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Operand, Tensor
    from netweave.formats.keras.call import Call

METHODS = {"nearest": "nearest", "bilinear": "linear", "bicubic": "cubic"}
RANDOM = (
    "RandomBrightness", "RandomContrast", "RandomCrop", "RandomFlip", "RandomRotation", "RandomTranslation",
    "RandomZoom",
)  # fmt: skip


@layer_reader("Rescaling")
def rescaling(call: Call) -> Tensor:
    """``x * scale + offset``."""
    scaled = broadcast(call.writer, "Mul", [_real(call), _constant(call, "scale", 1.0)])
    offset = _constant(call, "offset", 0.0)
    return broadcast(call.writer, "Add", [scaled, offset]) if np.any(offset.array) else scaled


@layer_reader("Normalization")
def normalization(call: Call) -> Tensor:
    """``(x - mean) / max(sqrt(variance), 1e-7)`` over the last axis; ``invert`` is the way back."""
    axis = call.setting("axis", -1)
    last = len(call.shape(call.x)) - 1
    if axis not in (-1, last, [-1], [last], (-1,), (last,)):
        raise call.refuse(f"axis={axis!r:.40}: only the last one is read")
    mean: Operand
    variance: Operand
    if call.setting("mean") is not None:
        mean, variance = _constant(call, "mean", 0.0), _constant(call, "variance", 1.0)
    else:
        size = (call.channels(),)
        mean, variance = (
            call.stored("mean", size, role="mean"),
            call.stored("variance", size, role="variance"),
        )
    smallest = Stored.constant(np.asarray(1e-7, np.float32))
    root = broadcast(call.writer, "Max", [unary(call.writer, "Sqrt", variance), smallest])
    if call.flag("invert", False):
        return broadcast(call.writer, "Add", [mean, broadcast(call.writer, "Mul", [_real(call), root])])
    return broadcast(call.writer, "Div", [broadcast(call.writer, "Sub", [_real(call), mean]), root])


@layer_reader("Resizing")
def resizing(call: Call) -> Tensor:
    """To a height and a width."""
    if call.flag("crop_to_aspect_ratio", False) or call.flag("pad_to_aspect_ratio", False):
        raise call.refuse("keeping the aspect ratio is not read")
    method = METHODS[call.word("interpolation", "bilinear", tuple(METHODS))]
    sizes = [call.count("height"), call.count("width")]
    return resize(call.writer, call.x, method=method, convention="half", sizes=sizes, last=call.is_last())


@layer_reader("CenterCrop")
def center_crop(call: Call) -> Tensor:
    """The middle of an image."""
    sizes = call.writer.known(call.x, [1, 2])
    wanted = [call.count("height"), call.count("width")]
    begins = [int((size - goal) / 2) for size, goal in zip(sizes, wanted, strict=True)]
    if min(begins) < 0:
        raise call.refuse(f"crops {sizes} to {wanted}, which Keras does by resizing")
    return cut(call.writer, call.x, {i + 1: (b, b + wanted[i], 1) for i, b in enumerate(begins)})


@layer_reader(*RANDOM)
def random(call: Call) -> Tensor:
    """Nothing is disturbed in a net that predicts."""
    return unary(call.writer, "Identity", call.x)


def _constant(call: Call, name: str, default: float) -> Stored:
    value: Any = call.setting(name)
    try:
        array = np.asarray(default if value is None else value, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise call.wrong(f"{name}={value!r:.40}, expected numbers") from error
    return Stored.constant(array)


def _real(call: Call) -> Tensor:
    dtype = call.x.value.dtype
    if dtype is not None and not dtype.is_floating_point():
        return unary(call.writer, "Cast", call.x, {"to": 1})
    return call.x
