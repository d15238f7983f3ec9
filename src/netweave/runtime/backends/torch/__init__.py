"""Graphs on torch: run and, in ``TorchNet``, train.

An operator is lowered by the function that the table (``table.py``) has for it; the functions stand in one
file per family. To add one see the head of ``table.py``.
"""

from __future__ import annotations

from netweave.runtime.backends.torch import (
    activation,
    attention,
    caffe_recurrent,
    convolution,
    creation,
    detection,
    elementwise,
    indexing,
    linear,
    local_response,
    losses,
    multibox,
    normalisation,
    outputs,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    regions,
    resize,
    rotary,
    sampling,
    shape,
    signal,
    yolo,
)
from netweave.runtime.backends.torch.net import TorchNet
from netweave.runtime.backends.torch.parameters import ParameterStore
from netweave.runtime.backends.torch.prepared import prepare
from netweave.runtime.backends.torch.table import (
    Ints,
    Lowering,
    Number,
    all_lowerings,
    find_lowering,
    lowering,
)

__all__ = [
    "Ints",
    "Lowering",
    "Number",
    "ParameterStore",
    "TorchNet",
    "activation",
    "all_lowerings",
    "attention",
    "caffe_recurrent",
    "convolution",
    "creation",
    "detection",
    "elementwise",
    "find_lowering",
    "indexing",
    "linear",
    "local_response",
    "losses",
    "lowering",
    "multibox",
    "normalisation",
    "outputs",
    "pooling",
    "prepare",
    "quantization",
    "random",
    "recurrent",
    "reduction",
    "regions",
    "resize",
    "rotary",
    "sampling",
    "shape",
    "signal",
    "yolo",
]
