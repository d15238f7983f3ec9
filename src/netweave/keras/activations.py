"""Keras' activations as functions: on symbolic tensors they are layers, on arrays they compute."""

from __future__ import annotations

from typing import Any

from netweave.keras import ops
from netweave.keras.layer import LAYERS
from netweave.keras.objects import missing

NAMES = (
    "celu", "elu", "exponential", "gelu", "glu", "hard_shrink", "hard_sigmoid", "hard_silu", "hard_tanh",
    "leaky_relu", "linear", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_shrink",
    "softmax", "softplus", "softsign", "swish", "tanh", "tanh_shrink",
)  # fmt: skip
"""The activations that layers know by name."""

ON_ARRAYS = {"relu", "sigmoid", "softmax", "log_softmax", "softplus", "tanh"}


class Activation:
    """One activation; a layer takes it as its ``activation``, like its name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, x: Any) -> Any:
        """Return the activation of a tensor."""
        if not ops.is_symbolic(x) and self.__name__ in ON_ARRAYS:
            return getattr(ops, self.__name__)(x)
        return LAYERS["Activation"](self.__name__)(x)


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return Activation(name)
    raise missing("keras.activations", name, NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
