"""ONNX's operators as PyTorch, one file for each family; importing this registers them all.

To add one: a function under ``@writes("Op")`` that returns a Step.
"""

from netweave.formats.pytorch.source.operators import (
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
