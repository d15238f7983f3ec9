"""The operators that can be written, by subject."""

from netweave.formats.keras.source.operators import (
    activation,
    arithmetic,
    normalisation,
    pooling,
    recurrent,
    shape,
    weighted,
)

__all__ = ["activation", "arithmetic", "normalisation", "pooling", "recurrent", "shape", "weighted"]
