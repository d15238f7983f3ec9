"""Priors of FaceBoxes' fork of the SSD branch, told by the filters that are to fit them.

Its PriorBox has no setting of its own: three sizes make 21 boxes of each cell, since small ones stand close
together. In the SSD branch they make three, and no net whose filters say 21 could be run there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.files.protobuf import Message

NUM_SIZES = 3
"""With so many sizes, and none besides, a cell has ``NUM_BOXES`` in the fork."""

NUM_BOXES = 21


def mark_dense_priors(specs: Sequence[Message]) -> tuple[str, ...]:
    """Mark the PriorBox layers that are FaceBoxes', in place, and return a note on them.

    Args:
        specs: The layers of the net.
    """
    dense = [spec for spec in specs if spec["type"] == "PriorBox" and _is_dense(spec, specs)]
    for spec in dense:
        if not spec["prior_box_param"]["is_dense"]:
            spec["prior_box_param"].put("is_dense", True)
    if not dense:
        return ()
    names = ", ".join(repr(spec["name"]) for spec in dense)
    return (f"the priors of {names} are read as those of FaceBoxes' fork, {NUM_BOXES} for each cell",)


def _is_dense(spec: Message, specs: Sequence[Message]) -> bool:
    parameter = spec["prior_box_param"]
    if len(parameter["min_size"]) != NUM_SIZES or parameter["max_size"] or parameter["aspect_ratio"]:
        return False
    reads = spec["bottom"][:1]
    widths = {
        each["convolution_param"]["num_output"]
        for each in specs
        if each["type"] == "Convolution" and each["bottom"] == reads
    }
    return 4 * NUM_BOXES in widths and 4 * NUM_SIZES not in widths
