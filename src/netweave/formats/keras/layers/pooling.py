"""Poolings (keras/layers/pooling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import Tensor, axes, windows
from netweave.files.channels_last.elementwise import broadcast
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.formats.keras.call import Call


@layer_reader("MaxPooling1D", "MaxPooling2D", "MaxPooling3D", "MaxPool1D", "MaxPool2D", "MaxPool3D")
@layer_reader(
    "AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "AvgPool3D"
)
def pooling(call: Call) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor."""
    rank = int(call.layer.type[-2])
    kernel = call.per_axis("pool_size", rank, 2)
    return windows.pooling(
        call.writer,
        call.x,
        "MaxPool" if call.layer.type.startswith("Max") else "AveragePool",
        kernel=kernel,
        strides=call.per_axis("strides", rank, kernel),
        padding=call.padding(),
        last=call.is_last(),
    )


@layer_reader("GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalMaxPooling3D")
@layer_reader("GlobalMaxPool1D", "GlobalMaxPool2D", "GlobalMaxPool3D")
@layer_reader("GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAveragePooling3D")
@layer_reader("GlobalAvgPool1D", "GlobalAvgPool2D", "GlobalAvgPool3D")
def global_pooling(call: Call) -> Tensor:
    """Over all places; a mean over time leaves out the steps that do not count."""
    mask = call.mask(call.x)
    if mask is not None and call.layer.type in {"GlobalAveragePooling1D", "GlobalAvgPool1D"}:
        return _counted_mean(call, mask)
    op_type = "ReduceMax" if "Max" in call.layer.type else "ReduceMean"
    rank = len(call.shape(call.x))
    over = list(range(1, rank - 1) if call.is_last() else range(2, rank))
    return axes.reduce(call.writer, op_type, call.x, over, keep=call.flag("keepdims", False))


def _counted_mean(call: Call, mask: Tensor) -> Tensor:
    """Return the mean over the steps that count."""
    writer, time = call.writer, 1 if call.is_last() else 2
    wide = writer.add("Unsqueeze", [writer.source(mask), writer.integers([3 - time])])
    counts = Tensor(writer.add("Cast", [wide], {"to": int(call.x.value.dtype or 1)}))
    keep = call.flag("keepdims", False)
    total = axes.reduce(writer, "ReduceSum", broadcast(writer, "Mul", [call.x, counts]), [time], keep=keep)
    return broadcast(writer, "Div", [total, axes.reduce(writer, "ReduceSum", counts, [time], keep=keep)])
