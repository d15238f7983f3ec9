"""Poolings (pooling_ops_common.cc)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.tensorflow.registry import operator_reader
from netweave.lowering.channels_last import windows

if TYPE_CHECKING:
    from netweave.formats.tensorflow.context import TensorFlowOperation
    from netweave.lowering.channels_last import Tensor


@operator_reader("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolWithArgmax", "MaxPoolV2")
def pooling(ctx: TensorFlowOperation) -> Tensor:
    """Padding counts neither for the maximum nor in the divisor; V2 has windows and steps as inputs."""
    last = ctx.is_last()
    if ctx.op == "MaxPoolV2":
        spatial = slice(1, -1) if last else slice(2, None)
        kernel = ctx.integers_input(1, "the window")[spatial]
        strides = ctx.integers_input(2, "the step")[spatial]
    else:
        if not ctx.integer_list("ksize"):
            raise ctx.read_error("has no 'ksize', expected the size of its window")
        kernel, strides = ctx.spatial("ksize", last=last), ctx.spatial("strides", last=last)
    window = windows.PaddedWindow.of(kernel, strides, ctx.padding(last=last))
    op_type = "AveragePool" if ctx.op.startswith("Avg") else "MaxPool"
    return windows.pooling(ctx, ctx.x, op_type, window, last=last)
