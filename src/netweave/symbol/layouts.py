"""Changes of layout around operators that MXNet runs with channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.symbol.context import MXNetOperator


LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")
"""What the setting ``layout`` may be; without it the channels are axis 1."""


def channels_first(ctx: MXNetOperator, x: ir.Value, last: bool) -> ir.Value:
    """Return ``x`` as N, C, spatial axes; ``last`` says whether its channels are last."""
    if not last:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [0, rank - 1, *range(1, rank - 1)])


def channels_last(ctx: MXNetOperator, x: ir.Value, last: bool) -> ir.Value:
    """Undo ``channels_first``."""
    if not last:
        return x
    rank = ctx.rank(x)
    return ctx.transpose(x, [0, *range(2, rank), 1])
