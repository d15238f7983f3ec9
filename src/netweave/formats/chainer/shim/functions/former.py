"""Functions as classes, as Chainer 1 had them: ``F.MaxPooling2D(3, stride=2)(x)``."""

from __future__ import annotations

from functools import partial
from typing import Any

from netweave.formats.chainer.shim.registry import FUNCTIONS

_CLASSES = (
    "AveragePooling2D", "BroadcastTo", "ClippedReLU", "Concat", "Dropout", "ELU", "ExpandDims", "LeakyReLU",
    "LocalResponseNormalization", "MaxPooling2D", "ReLU", "Reshape", "Sigmoid", "Softmax",
    "SoftmaxCrossEntropy", "Tanh", "Transpose",
)  # fmt: skip
"""Classes of Chainer 1 that are functions today, of the same name in small letters."""


class _Former:
    """Factory of a function with its settings bound."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("use_cudnn", None)
        words = {name.replace("_", ""): name for name in FUNCTIONS}
        function = FUNCTIONS[words[self._name.lower()]]
        if self._name == "Concat":
            return lambda *xs: function(xs, *args, **kwargs)
        return lambda *xs: partial(function, **kwargs)(*xs, *args)


FORMER = {name: _Former(name) for name in _CLASSES}
"""Every class by its name in ``chainer.functions``."""
