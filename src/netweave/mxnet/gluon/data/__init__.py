"""``gluon.data``: records by number, and batches of them."""

from __future__ import annotations

import importlib
from typing import Any

from netweave.mxnet.gluon.data.dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from netweave.mxnet.gluon.data.loader import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "RandomSampler",
    "RecordFileDataset",
    "Sampler",
    "SequentialSampler",
    "SimpleDataset",
]


def __getattr__(name: str) -> Any:
    if name == "vision":
        return importlib.import_module(f"{__name__}.vision")
    from netweave.mxnet.base import missing

    raise missing("gluon.data", name, [*__all__, "vision"])
