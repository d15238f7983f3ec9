"""Changes of layout around operators that MXNet runs with channels last."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.symbol.call import Call


LAYOUTS = ("NCW", "NCHW", "NCDHW", "NWC", "NHWC", "NDHWC")
"""What the setting ``layout`` may be; without it the channels are axis 1."""


def channels_first(call: Call, x: ir.Value, last: bool) -> ir.Value:
    """Return ``x`` as N, C, spatial axes; ``last`` says whether its channels are last."""
    if not last:
        return x
    rank = len(call.shape(x))
    return call.add("Transpose", [x], {"perm": [0, rank - 1, *range(1, rank - 1)]})


def channels_last(call: Call, x: ir.Value, last: bool) -> ir.Value:
    """Undo ``channels_first``."""
    if not last:
        return x
    rank = len(call.shape(x))
    return call.add("Transpose", [x], {"perm": [0, *range(2, rank), 1]})
