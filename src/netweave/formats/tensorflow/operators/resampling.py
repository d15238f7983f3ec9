"""Images of another size (image_resizer_state.h; see lowering/channels_last/resizing.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.formats.lowering.channels_last.resizing import resize
from netweave.formats.tensorflow.operands import Open, numbers_of
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.formats.lowering.channels_last import Tensor
    from netweave.formats.tensorflow.context import TensorFlowOperation

METHODS = {"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest", "ResizeBicubic": "cubic"}


@operator_reader(*METHODS)
def resized(ctx: TensorFlowOperation) -> Tensor:
    """To sizes (height, width), by one of three conventions."""
    if ctx.attribute("half_pixel_centers", False):
        convention = "half"
    else:
        convention = "corners" if ctx.attribute("align_corners", False) else "asymmetric"
    given = numbers_of(ctx.item(1))
    if given is not None and any(isinstance(number, Open) for number in given.flat):
        raise ctx.unsupported(
            "the new size depends on an unknown size; set the sizes of the net's inputs, as in "
            "--input-shape image=1x224x224x3"
        )
    sizes = ctx.integers_input(1, "the new size")
    method = METHODS[ctx.op]
    return resize(ctx, ctx.operand(), method=method, convention=convention, sizes=sizes)
