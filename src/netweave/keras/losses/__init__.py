"""Losses: functions of labels and predictions, and objects that reduce them to one number."""

from typing import Any

from netweave.keras.losses.classes import CLASSES
from netweave.keras.losses.functions import LOSSES, Loss, LossFunction, as_loss, get

__all__ = ["LOSSES", "Loss", "LossFunction", "as_loss", "get"]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    if name in LOSSES.classes and not isinstance(LOSSES.classes[name], type):
        return LOSSES.classes[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *CLASSES, *LOSSES.classes})
