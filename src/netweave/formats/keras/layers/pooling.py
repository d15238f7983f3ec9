"""Poolings (keras/layers/pooling)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import axes, windows
from netweave.formats.keras.registry import layer_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
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
    """Over all places."""
    op_type = "ReduceMax" if "Max" in call.layer.type else "ReduceMean"
    rank = len(call.shape(call.x))
    over = list(range(1, rank - 1) if call.is_last() else range(2, rank))
    return axes.reduce(call.writer, op_type, call.x, over, keep=call.flag("keepdims", False))
