"""Models, and their files."""

from typing import Any

from netweave.keras.layers import Input
from netweave.keras.models.loading import load_model, model_from_config
from netweave.keras.models.model import Model, Sequential
from netweave.keras.objects import missing

__all__ = ["Input", "Model", "Sequential", "load_model", "model_from_config"]


def __getattr__(name: str) -> Any:
    raise missing("keras.models", name, globals())
