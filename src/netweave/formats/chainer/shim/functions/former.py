"""Functions as classes, as Chainer 1 had them: ``F.MaxPooling2D(3, stride=2)(x)``."""

from __future__ import annotations

from functools import partial
from typing import Any

from netweave.formats.chainer.shim.registry import FUNCTIONS

_NAMES = {
    "AveragePooling2D": "average_pooling_2d",
    "BroadcastTo": "broadcast_to",
    "ClippedReLU": "clipped_relu",
    "Concat": "concat",
    "Dropout": "dropout",
    "ELU": "elu",
    "ExpandDims": "expand_dims",
    "LeakyReLU": "leaky_relu",
    "LocalResponseNormalization": "local_response_normalization",
    "MaxPooling2D": "max_pooling_2d",
    "ReLU": "relu",
    "Reshape": "reshape",
    "Sigmoid": "sigmoid",
    "Softmax": "softmax",
    "SoftmaxCrossEntropy": "softmax_cross_entropy",
    "Tanh": "tanh",
    "Transpose": "transpose",
}
"""What is called a function today, by its class's name."""


class _Former:
    """What makes a function with its settings bound."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("use_cudnn", None)
        function = FUNCTIONS[self._name]
        if self._name == "concat":
            return lambda *xs: function(xs, *args, **kwargs)
        return lambda *xs: partial(function, **kwargs)(*xs, *args)


FORMER = {name: _Former(today) for name, today in _NAMES.items()}
"""Every class by its name in ``chainer.functions``."""
