"""The operators that can be written, by subject."""

from netweave.formats.keras.source.operators import activation, arithmetic, pooling, shape, weighted

__all__ = ["activation", "arithmetic", "pooling", "shape", "weighted"]
