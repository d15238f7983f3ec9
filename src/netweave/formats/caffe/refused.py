"""Layers of Caffe and its branches that are known but not read, with what to say of each."""

_SSD = "a layer of the SSD branch"
_RCNN = "a layer of the Faster R-CNN branch"
_INTEL = "a layer of the Intel branch"

OTHERS = {
    "AnnotatedData": _SSD,
    "DetectionEvaluate": _SSD,
    "DetectionOutput": _SSD,
    "MultiBoxLoss": _SSD,
    "Normalize": _SSD,
    "Permute": _SSD,
    "PriorBox": _SSD,
    "SmoothL1Loss": "a layer of the SSD and Faster R-CNN branches",
    "VideoData": _SSD,
    "Proposal": _RCNN,
    "PSROIPooling": _RCNN,
    "ROIPooling": _RCNN,
    "BoxAnnotatorOHEM": _RCNN,
    "RegionLoss": _INTEL,
    "Reorg": _INTEL,
    "SpatialDropout": _INTEL,
    "Python": "whose code is in a module of its own",
}
"""By type, who brought it."""
