"""Operators that are known and not read, with the reason; any other name is simply unknown."""

from __future__ import annotations

REASONS = {
    **dict.fromkeys(("_contrib_ROIAlign", "_contrib_PSROIPooling"), "a layer of R-CNN: not read yet"),
    **dict.fromkeys(
        ("Custom", "_Native", "_NDArray"), "its code is in the program that wrote the net, not in the file"
    ),
    **dict.fromkeys(("_foreach", "_while_loop", "_cond"), "control flow: not read yet"),
}
