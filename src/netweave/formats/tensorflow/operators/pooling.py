"""Poolings (pooling_ops_common.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last import windows
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.tensorflow.call import Call


@operator_reader("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolWithArgmax")
def pooling(call: Call) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor."""
    last = call.is_last()
    padding = call.padding(last=last)
    return windows.pooling(
        call.writer,
        call.operand(),
        "AveragePool" if call.op.startswith("Avg") else "MaxPool",
        kernel=call.spatial("ksize", last=last),
        strides=call.spatial("strides", last=last),
        padding=padding,
        last=last,
    )


@operator_reader("MaxPoolV2")
def max_pool_v2(call: Call) -> Tensor:
    """Windows and steps are inputs."""
    last = call.is_last()
    inner = slice(1, -1) if last else slice(2, None)
    return windows.pooling(
        call.writer,
        call.operand(),
        "MaxPool",
        kernel=call.integers(1, "the window")[inner],
        strides=call.integers(2, "the step")[inner],
        padding=call.padding(last=last),
        last=last,
    )
