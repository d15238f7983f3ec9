"""Graphs on torch: run and, in ``TorchNet``, train.

An operator is lowered by the function that the table (``operator_table.py``) has for it; the functions stand
in one file per family. To add one see the head of ``operator_table.py``.
"""

from __future__ import annotations

from netweave.runtime.backends.torch import (
    attention,
    connections,
    convolution,
    detection,
    elementwise,
    losses,
    normalisation,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    shape,
    signal,
)
from netweave.runtime.backends.torch.net import TorchNet, prepare
from netweave.runtime.backends.torch.operator_table import (
    Ints,
    Lowering,
    Number,
    all_lowerings,
    find_lowering,
    lowering,
)
from netweave.runtime.backends.torch.parameters import ParameterStore

__all__ = [
    "Ints",
    "Lowering",
    "Number",
    "ParameterStore",
    "TorchNet",
    "all_lowerings",
    "attention",
    "connections",
    "convolution",
    "detection",
    "elementwise",
    "find_lowering",
    "losses",
    "lowering",
    "normalisation",
    "pooling",
    "prepare",
    "quantization",
    "random",
    "recurrent",
    "reduction",
    "regions",
    "resize",
    "shape",
    "signal",
]
