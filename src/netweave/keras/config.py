"""Settings for all models: ``keras.config`` and ``keras.backend``."""

from typing import Any

from netweave.keras.objects import missing
from netweave.keras.operation import (
    EPSILON,
    clear_session,
    image_data_format,
    set_image_data_format,
)

__all__ = ["clear_session", "epsilon", "floatx", "image_data_format", "set_image_data_format"]


def epsilon() -> float:
    """Return what is added where a number might be zero."""
    return EPSILON


def floatx() -> str:
    """Return the type of numbers."""
    return "float32"


def __getattr__(name: str) -> Any:
    raise missing("keras.config", name, globals())
