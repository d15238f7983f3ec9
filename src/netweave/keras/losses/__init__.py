"""Losses: functions of labels and predictions, and objects that reduce them to one number."""

from typing import Any

from netweave.keras.losses.functions import CLASSES, LOSSES, Loss, LossFunction, as_loss, get
from netweave.keras.objects import missing

__all__ = ["LOSSES", "Loss", "LossFunction", "as_loss", "get"]


def __getattr__(name: str) -> Any:
    if name in CLASSES:
        return CLASSES[name]
    if name in LOSSES.classes and not isinstance(LOSSES.classes[name], type):
        return LOSSES.classes[name]
    raise missing("keras.losses", name, [*__all__, *CLASSES, *LOSSES.classes])


def __dir__() -> list[str]:
    functions = {name for name, made in LOSSES.classes.items() if not isinstance(made, type)}
    return sorted({*__all__, *CLASSES, *functions})
