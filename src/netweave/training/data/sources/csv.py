"""Rows of numbers, as MXNet's CSVIter reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.location import read_text
from netweave.training.data.sources.arrays import Arrays

if TYPE_CHECKING:
    from collections.abc import Sequence


class CSV(Arrays):
    """One record a row: numbers with commas between.

    Args:
        data: The file of the first part.
        data_shape: Its sizes, without the number of rows.
        label: The file of labels; None for zeros, as MXNet gives then.
        label_shape: Their sizes.

    Raises:
        ReadError: A file is missing, has something that is no number, or rows of another length.
    """

    def __init__(
        self,
        data: str,
        data_shape: Sequence[int],
        label: str | None = None,
        label_shape: Sequence[int] = (1,),
    ) -> None:
        first = _rows(data, data_shape)
        labels = np.zeros(len(first), np.float32) if label is None else _rows(label, label_shape)
        if labels.shape[1:] == (1,):
            labels = labels[:, 0]
        if len(labels) != len(first):
            raise ReadError(f"has {len(labels)} rows, and {data} has {len(first)}", place=str(label))
        super().__init__(first, labels, names=(data,) if label is None else (data, label))


def _rows(path: str, shape: Sequence[int]) -> np.ndarray:
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    if not lines:
        raise ReadError("has no rows", place=path)
    try:
        rows = np.loadtxt(lines, np.float32, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ReadError(str(error), place=path) from error
    size = int(np.prod(shape))
    if rows.size == 0 or rows.shape[1] != size:
        raise ReadError(f"has an array of {rows.shape}, expected rows of {size} numbers", place=path)
    return rows.reshape(-1, *shape)
