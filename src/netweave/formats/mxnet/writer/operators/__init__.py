"""The operators that can be written, by subject."""

from netweave.formats.mxnet.writer.operators import elementwise, normalisation, pooling, shape, weighted

__all__ = ["elementwise", "normalisation", "pooling", "shape", "weighted"]
