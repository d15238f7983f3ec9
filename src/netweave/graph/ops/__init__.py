"""The operators that ONNX lacks, one file per family; importing this package registers them all."""

from netweave.graph.ops import (
    attention,
    connections,
    detection,
    losses,
    multibox_loss,
    normalisation,
    pooling,
    recurrent,
    regions,
)

__all__ = [
    "attention",
    "connections",
    "detection",
    "losses",
    "multibox_loss",
    "normalisation",
    "pooling",
    "recurrent",
    "regions",
]
