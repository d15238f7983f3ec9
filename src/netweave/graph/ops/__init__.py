"""The operators that ONNX lacks, one file per family; importing this package registers them all."""

from netweave.graph.ops import losses, outputs, pooling

__all__ = ["losses", "outputs", "pooling"]
