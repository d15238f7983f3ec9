"""The operators that can be written, by subject."""

from netweave.formats.caffe.writer.operators import (
    activation,
    arithmetic,
    detection,
    normalisation,
    pooling,
    recurrent,
    shape,
    weighted,
)

__all__ = [
    "activation",
    "arithmetic",
    "detection",
    "normalisation",
    "pooling",
    "recurrent",
    "shape",
    "weighted",
]
