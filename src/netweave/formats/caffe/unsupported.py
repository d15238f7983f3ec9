"""Layers and settings of Caffe's branches that are known but not read, with what to say of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from netweave.files.protobuf import Message
    from netweave.formats.caffe.context import CaffeLayer

_RCNN = "a layer of the Faster R-CNN branch"
_OHEM = "which the R-FCN branch trains with; give the net that it tests with"
_FACES = "which face recognition trains with; give the net that is deployed"
_INTEL = "a layer of the Intel branch"

OTHERS = {
    "Proposal": _RCNN,
    "BoxAnnotatorOHEM": _OHEM,
    "SmoothL1LossOHEM": _OHEM,
    "SoftmaxWithLossOHEM": _OHEM,
    "CenterLoss": _FACES,
    "MarginInnerProduct": _FACES,
    "RegionLoss": _INTEL,
    "SpatialDropout": _INTEL,
}
"""By type, who brought it."""


def refuse_fused_relu(ctx: CaffeLayer, parameter: Message) -> None:
    """Raise ``UnsupportedError`` where the Intel branch has put a ReLU into another layer."""
    if parameter["relu"]:
        raise ctx.unsupported(
            "'relu' of the Intel branch is not supported; add a ReLU layer after it",
            parameter.line_of("relu"),
        )
