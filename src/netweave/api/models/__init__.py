"""Models: a net with its arrays, to be trained, judged and asked; in the manner of MXNet or of Keras."""

from netweave.api.models.callbacks import BatchEndParam, EarlyStopping
from netweave.api.models.events import BatchEnd, EpochEnd, History
from netweave.api.models.module import Module
from netweave.api.models.sequential import Sequential

__all__ = ["BatchEnd", "BatchEndParam", "EarlyStopping", "EpochEnd", "History", "Module", "Sequential"]
