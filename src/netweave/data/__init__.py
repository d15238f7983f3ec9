"""The data pipeline: record sources, transforms, and loaders that prefetch on the engine."""

from netweave.data.batch import Batch
from netweave.data.loader import Loader
from netweave.data.order import BatchPlan, Order
from netweave.data.share import BatchShare, BatchTurns, Turns, share_bounds
from netweave.data.source import SOURCES, EndOfDataError, Record, Source, open_source
from netweave.data.transform import TRANSFORMS, Pipeline

__all__ = [
    "SOURCES",
    "TRANSFORMS",
    "Batch",
    "BatchPlan",
    "BatchShare",
    "BatchTurns",
    "EndOfDataError",
    "Loader",
    "Order",
    "Pipeline",
    "Record",
    "Source",
    "Turns",
    "open_source",
    "share_bounds",
]
