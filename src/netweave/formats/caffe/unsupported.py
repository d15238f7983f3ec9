"""Layers and settings of Caffe's branches that are known but not read, with what to say of each."""

from __future__ import annotations

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
