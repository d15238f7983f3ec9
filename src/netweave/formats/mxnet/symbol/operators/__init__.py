"""Readers of MXNet's operators, one file per family; importing this package registers them all."""

from netweave.formats.lowering import import_families
from netweave.formats.mxnet.symbol.registry import READERS

__all__ = ["READERS", "REASONS"]

REASONS = {
    **dict.fromkeys(("_contrib_ROIAlign", "_contrib_PSROIPooling"), "a layer of R-CNN: not read yet"),
    **dict.fromkeys(
        ("Custom", "_Native", "_NDArray"), "its code is in the program that wrote the net, not in the file"
    ),
    **dict.fromkeys(("_foreach", "_while_loop", "_cond"), "control flow: not read yet"),
}
"""Operators that are known and not read, with the reason; any other name is simply unknown."""

import_families(__name__)
