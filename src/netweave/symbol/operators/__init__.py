"""Readers of MXNet's operators, one file per family; importing this package registers them all."""

from netweave.symbol.operators import (
    activation,
    constants,
    convolution,
    detection,
    elementwise,
    indexing,
    normalization,
    outputs,
    pooling,
    recurrent,
    reduction,
    resampling,
    shaping,
)
from netweave.symbol.operators.refused import REASONS

__all__ = [
    "REASONS",
    "activation",
    "constants",
    "convolution",
    "detection",
    "elementwise",
    "indexing",
    "normalization",
    "outputs",
    "pooling",
    "recurrent",
    "reduction",
    "resampling",
    "shaping",
]
