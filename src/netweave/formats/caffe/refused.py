"""Layers and settings of Caffe's branches that are known but not read, with what to say of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.files.protobuf import Message
    from netweave.formats.caffe.call import Call

_SSD = "a layer of the SSD branch"
_RCNN = "a layer of the Faster R-CNN branch"
_INTEL = "a layer of the Intel branch"

OTHERS = {
    "DetectionEvaluate": _SSD,
    "Proposal": _RCNN,
    "BoxAnnotatorOHEM": _RCNN,
    "RegionLoss": _INTEL,
    "EvalDetection": _INTEL,
    "SpatialDropout": _INTEL,
}
"""By type, who brought it."""


def refuse_fused_relu(call: Call, parameter: Message) -> None:
    """Raise ``UnsupportedError`` where the Intel branch has put a ReLU into another layer."""
    if parameter["relu"]:
        raise call.unsupported(
            "'relu' of the Intel branch is not read; write a ReLU layer behind", parameter.line_of("relu")
        )
