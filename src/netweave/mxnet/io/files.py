"""Batches of numbers in files: the iterators that MXNet writes in C++, over Netweave's sources and loader."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.mxnet.io.batch import MXDataIter, drop_ignored, require_known, share_of_worker
from netweave.training.data import Record, Source
from netweave.training.data.sources.arrays import CSV, MNIST


def MNISTIter(  # noqa: N802 - MXNet's name
    image: str = "./train-images-idx3-ubyte",
    label: str = "./train-labels-idx1-ubyte",
    batch_size: int = 128,
    shuffle: bool = True,
    flat: bool = False,
    seed: int = 0,
    silent: bool = False,
    input_shape: Any = None,
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of MNIST: pixels times 1/256.

    Raises:
        ReadError: A file is missing or of another kind.
    """
    drop_ignored(settings)
    paths = [_existing(path) for path in (image, label)]
    source = share_of_worker(MNIST(paths[0], paths[1], flat=bool(flat)), settings)
    require_known("MNISTIter", settings)
    return MXDataIter(
        source,
        batch_size=int(batch_size),
        names=(data_name, label_name),
        shuffle=bool(shuffle),
        seed=int(seed),
        transforms=[{"kind": "scale", "factor": 1.0 / 256.0}],
    )


def _existing(path: str) -> str:
    """Return a file, or the one with ``.gz``: scripts name the unpacked one, downloads are packed."""
    return path if Path(path).exists() or not Path(f"{path}.gz").exists() else f"{path}.gz"


def CSVIter(  # noqa: N802 - MXNet's name
    data_csv: str,
    data_shape: Sequence[int],
    label_csv: str | None = None,
    label_shape: Sequence[int] = (1,),
    batch_size: int = 1,
    dtype: Any = "float32",
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of rows of numbers.

    Raises:
        ReadError: A file is missing, or has something that is no number.
    """
    drop_ignored(settings)
    source = share_of_worker(
        CSV(data_csv, tuple(data_shape), label_csv or None, tuple(label_shape)), settings
    )
    require_known("CSVIter", settings)
    names = (data_name, label_name)
    return MXDataIter(source, batch_size=int(batch_size), names=names, dtype=np.dtype(dtype).name)


def LibSVMIter(  # noqa: N802 - MXNet's name
    data_libsvm: str,
    data_shape: Sequence[int],
    label_libsvm: str | None = None,
    label_shape: Sequence[int] = (1,),
    batch_size: int = 1,
    data_name: str = "data",
    label_name: str = "softmax_label",
    **settings: Any,
) -> MXDataIter:
    """Return batches of rows ``label index:value ...``, stored densely.

    Raises:
        ReadError: A file is missing, or damaged.
    """
    drop_ignored(settings)
    labels = _LibSVM(label_libsvm, int(np.prod(label_shape))) if label_libsvm else None
    source = share_of_worker(_LibSVM(data_libsvm, int(np.prod(data_shape)), labels), settings)
    require_known("LibSVMIter", settings)
    return MXDataIter(source, batch_size=int(batch_size), names=(data_name, label_name))


class _LibSVM(Source):
    """Rows ``label index:value ...``, made dense when they are read.

    Args:
        path: The file.
        width: Elements of a row.
        labels: Rows of another file, which are the labels.
    """

    def __init__(self, path: str, width: int, labels: _LibSVM | None = None) -> None:
        self.place, self._path, self._width, self._labels = path, path, width, labels
        try:
            text = Path(path).read_text(encoding="utf-8")
        except OSError as error:
            raise ReadError(f"cannot be read: {error.strerror or error}", place=path) from error
        self._lines = [
            (number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()
        ]

    def __len__(self) -> int:
        return len(self._lines)

    def dense(self, index: int) -> tuple[float, np.ndarray]:
        """Return label and elements of a row."""
        number, fields = self._lines[index]
        row = np.zeros(self._width, np.float32)
        try:
            label = float(fields[0]) if ":" not in fields[0] else 0.0
            for place, value in (field.split(":") for field in fields if ":" in field):
                row[int(place)] = float(value)
        except (ValueError, IndexError) as error:
            raise ReadError(
                f"expected label and index:value with indices below {self._width}: {error}",
                place=f"{self._path}:{number}",
            ) from error
        return label, row

    def read(self, index: int) -> Record:
        """Return a record."""
        label, row = self.dense(index)
        return row, np.asarray(label, np.float32) if self._labels is None else self._labels.dense(index)[1]
