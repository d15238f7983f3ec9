"""The operators that ONNX lacks, one file per family; importing this package registers them all."""

from netweave.graph.ops import outputs, pooling

__all__ = ["outputs", "pooling"]
