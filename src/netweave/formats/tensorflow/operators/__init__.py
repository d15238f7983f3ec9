"""Readers of TensorFlow's operators, one file per family; importing this package registers them all."""

from netweave.formats.tensorflow.operators import (
    activation,
    arrays,
    control,
    convolution,
    cudnn,
    elementwise,
    indexing,
    normalization,
    pooling,
    recurrent,
    reduction,
    resampling,
    shaping,
    variables,
)
from netweave.formats.tensorflow.operators.refused import reason

__all__ = [
    "activation",
    "arrays",
    "control",
    "convolution",
    "cudnn",
    "elementwise",
    "indexing",
    "normalization",
    "pooling",
    "reason",
    "recurrent",
    "reduction",
    "resampling",
    "shaping",
    "variables",
]
