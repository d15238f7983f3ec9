"""Models, and their files."""

from typing import Any

from netweave.keras.absent import missing
from netweave.keras.layers import Input
from netweave.keras.models.loading import load_model, model_from_config
from netweave.keras.models.model import Model, Sequential

__all__ = ["Input", "Model", "Sequential", "load_model", "model_from_config"]


def __getattr__(name: str) -> Any:
    raise missing("keras.models", name, globals())
