"""The operators that can be written, by subject."""

from netweave.formats.mxnet.writer.operators import (
    detection,
    elementwise,
    normalisation,
    pooling,
    recurrent,
    shape,
    weighted,
)

__all__ = ["detection", "elementwise", "normalisation", "pooling", "recurrent", "shape", "weighted"]
