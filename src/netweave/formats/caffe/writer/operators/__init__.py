"""The operators that can be written, by subject."""

from netweave.formats.caffe.writer.operators import (
    activation,
    arithmetic,
    normalisation,
    pooling,
    shape,
    weighted,
)

__all__ = ["activation", "arithmetic", "normalisation", "pooling", "shape", "weighted"]
