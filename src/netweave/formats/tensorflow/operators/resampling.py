"""Images of another size (image_resizer_state.h; see files/channels_last/resizing.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.channels_last.resizing import resize
from netweave.formats.tensorflow.operands import Open, numbers_of
from netweave.formats.tensorflow.registry import operator_reader

if TYPE_CHECKING:
    from netweave.files.channels_last import Tensor
    from netweave.formats.tensorflow.call import Call

METHODS = {"ResizeBilinear": "linear", "ResizeNearestNeighbor": "nearest", "ResizeBicubic": "cubic"}


@operator_reader(*METHODS)
def resized(call: Call) -> Tensor:
    """To sizes (height, width), by one of three conventions."""
    if call.attribute("half_pixel_centers", False):
        convention = "half"
    else:
        convention = "corners" if call.attribute("align_corners", False) else "asymmetric"
    given = numbers_of(call.item(1))
    if given is not None and any(isinstance(number, Open) for number in given.flat):
        raise call.refuse(
            "the new size follows from an open one; give the sizes of the net's inputs, as in "
            "--input-shape image=1x224x224x3"
        )
    sizes = call.integers(1, "the new size")
    method = METHODS[call.op]
    return resize(call.writer, call.operand(), method=method, convention=convention, sizes=sizes)
