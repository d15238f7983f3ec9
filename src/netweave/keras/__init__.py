"""Keras' manner of building and fitting nets: ``import netweave.keras as keras``.

Layers, models, losses, metrics, optimizers, callbacks and the rest have Keras 3's names, arguments and
definitions. What a layer computes is the rule by which Netweave reads Keras' files; what a fit does is a Job,
run by the one trainer. ``python -m netweave.keras script.py`` runs a script of which no line is changed.
"""

from typing import Any

from netweave.keras import (
    activations,
    backend,
    callbacks,
    config,
    constraints,
    initializers,
    layers,
    losses,
    metrics,
    models,
    ops,
    optimizers,
    regularizers,
    saving,
    utils,
)
from netweave.keras.callbacks import Callback, EarlyStopping
from netweave.keras.layers import Input, InputLayer, Layer
from netweave.keras.losses import Loss
from netweave.keras.metrics import Metric
from netweave.keras.models import Model, Sequential, load_model
from netweave.keras.objects import missing
from netweave.keras.operation import KerasTensor
from netweave.keras.optimizers import Optimizer
from netweave.keras.originals import MODULES, original_module

__all__ = [
    "Callback",
    "EarlyStopping",
    "Input",
    "InputLayer",
    "KerasTensor",
    "Layer",
    "Loss",
    "Metric",
    "Model",
    "Optimizer",
    "Sequential",
    "__version__",
    "activations",
    "backend",
    "callbacks",
    "config",
    "constraints",
    "initializers",
    "layers",
    "load_model",
    "losses",
    "metrics",
    "models",
    "ops",
    "optimizers",
    "regularizers",
    "saving",
    "utils",
]


__version__ = saving.VERSION
"""The version whose rules these are; scripts look at it."""


def install() -> None:
    """Let ``import keras`` and ``from tensorflow.keras import ...`` find this package from now on.

    Raises:
        UsageError: Keras or TensorFlow is imported already.
    """
    from netweave.keras import hook

    hook.install()


def load_ipython_extension(shell: Any) -> None:
    """Answer ``import keras`` in a notebook, for ``%load_ext netweave.keras``."""
    install()


def __getattr__(name: str) -> Any:
    if name in MODULES:
        return original_module(name)
    raise missing("keras", name, globals())
