"""``mx.io``: batches, and what makes them."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.io.batch import (
    DataBatch,
    DataDesc,
    DataIter,
    MXDataIter,
    NDArrayIter,
    PrefetchingIter,
    ResizeIter,
    _init_data,
)
from netweave.mxnet.io.files import CSVIter, LibSVMIter, MNISTIter
from netweave.mxnet.io.images import (
    ImageDetRecordIter,
    ImageRecordIter,
    ImageRecordIter_v1,
    ImageRecordUInt8Iter,
)

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageRecordIter",
    "ImageRecordIter_v1",
    "ImageRecordUInt8Iter",
    "LibSVMIter",
    "MNISTIter",
    "MXDataIter",
    "NDArrayIter",
    "PrefetchingIter",
    "ResizeIter",
    "_init_data",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.io", name, __all__)
