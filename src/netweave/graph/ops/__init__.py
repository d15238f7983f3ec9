"""The operators that ONNX lacks, one file per family; importing this package registers them all."""

from netweave.graph.ops import (
    attention,
    caffe_recurrent,
    ctc,
    detection,
    losses,
    multibox,
    multibox_loss,
    normalisation,
    outputs,
    pooling,
    proposals,
    region_proposals,
    regions,
    rotary,
    yolo_loss,
)

__all__ = [
    "attention",
    "caffe_recurrent",
    "ctc",
    "detection",
    "losses",
    "multibox",
    "multibox_loss",
    "normalisation",
    "outputs",
    "pooling",
    "proposals",
    "region_proposals",
    "regions",
    "rotary",
    "yolo_loss",
]
