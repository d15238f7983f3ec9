"""Readers of MXNet's operators, one file per family; importing this package registers them all."""

from netweave.formats.mxnet.operators import (
    activation,
    convolution,
    elementwise,
    normalization,
    outputs,
    pooling,
    shaping,
)
from netweave.formats.mxnet.operators.refused import reason

__all__ = [
    "activation",
    "convolution",
    "elementwise",
    "normalization",
    "outputs",
    "pooling",
    "reason",
    "shaping",
]
