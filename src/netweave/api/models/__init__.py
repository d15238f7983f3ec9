"""Models: a net with its arrays, to be trained, judged and asked; here in the manner of MXNet."""

from netweave.api.models.events import BatchEnd, EpochEnd, History
from netweave.api.models.module import Module
from netweave.api.models.records import BatchEndParam

__all__ = ["BatchEnd", "BatchEndParam", "EpochEnd", "History", "Module"]
