"""Callbacks: objects that are told what a fit does, and may change it."""

from typing import Any

from netweave.keras.callbacks.base import Callback
from netweave.keras.callbacks.files import CSVLogger, ModelCheckpoint, TensorBoard
from netweave.keras.callbacks.stopping import (
    EarlyStopping,
    LambdaCallback,
    LearningRateScheduler,
    ReduceLROnPlateau,
    TerminateOnNaN,
)
from netweave.keras.epochs import History
from netweave.keras.objects import missing

__all__ = [
    "CSVLogger",
    "Callback",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "TensorBoard",
    "TerminateOnNaN",
]


def __getattr__(name: str) -> Any:
    raise missing("keras.callbacks", name, globals())
