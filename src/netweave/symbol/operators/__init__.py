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
from netweave.symbol.operators.refused import reason

__all__ = [
    "activation",
    "constants",
    "convolution",
    "detection",
    "elementwise",
    "indexing",
    "normalization",
    "outputs",
    "pooling",
    "reason",
    "recurrent",
    "reduction",
    "resampling",
    "shaping",
]
