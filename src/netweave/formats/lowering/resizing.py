"""Images made larger by repeating their elements, as ONNX's Resize."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir as ir

    from netweave.formats.lowering.context import LayerContext

# Only with these two is the element at i // factor taken; ONNX's defaults round to the nearest centre.
REPEATED = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def repeat_elements(ctx: LayerContext, x: ir.Value, factor: int, *, name: str = "") -> ir.Value:
    """Return an image (N, C, H, W) with every element repeated in both directions."""
    return ctx.add("Resize", [x, None, ctx.constant([1, 1, factor, factor])], REPEATED, name=name)
