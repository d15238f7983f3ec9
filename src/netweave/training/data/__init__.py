"""The data pipeline: record sources, transforms, and loaders that prefetch on the engine."""

from netweave.training.data.loader import Batch, Loader
from netweave.training.data.order import (
    BatchPlan,
    BatchShards,
    BatchShare,
    BatchTurns,
    Order,
    Shards,
    Turns,
    share_bounds,
)
from netweave.training.data.source import SOURCES, EndOfDataError, Record, Source, open_source
from netweave.training.data.transform import TRANSFORMS, Pipeline

__all__ = [
    "SOURCES",
    "TRANSFORMS",
    "Batch",
    "BatchPlan",
    "BatchShards",
    "BatchShare",
    "BatchTurns",
    "EndOfDataError",
    "Loader",
    "Order",
    "Pipeline",
    "Record",
    "Shards",
    "Source",
    "Turns",
    "open_source",
    "share_bounds",
]
