"""Keras' manner of building and fitting nets: ``import netweave.keras as keras``.

Layers, models, losses, metrics, optimizers, callbacks and the rest have Keras 3's names, arguments and
definitions. What a layer computes is the rule by which Netweave reads Keras' files; what a fit does is a Job,
run by the one trainer.
"""

from typing import Any

from netweave.keras import (
    activations,
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
from netweave.keras import config as backend
from netweave.keras.callbacks import Callback, EarlyStopping
from netweave.keras.layers import Input, InputLayer, Layer
from netweave.keras.losses import Loss
from netweave.keras.metrics import Metric
from netweave.keras.models import Model, Sequential, load_model
from netweave.keras.objects import missing
from netweave.keras.operation import KerasTensor
from netweave.keras.optimizers import Optimizer

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


def __getattr__(name: str) -> Any:
    raise missing("keras", name, globals())
