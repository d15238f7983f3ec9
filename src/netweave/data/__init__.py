"""Records in, batches out: sources, transforms, and loaders that work ahead on the engine."""

from netweave.data.batch import Batch
from netweave.data.loader import Loader
from netweave.data.order import Order, Ticket
from netweave.data.source import SOURCES, EndOfDataError, Record, Source, open_source
from netweave.data.transform import TRANSFORMS, Pipeline

__all__ = [
    "SOURCES",
    "TRANSFORMS",
    "Batch",
    "EndOfDataError",
    "Loader",
    "Order",
    "Pipeline",
    "Record",
    "Source",
    "Ticket",
    "open_source",
]
