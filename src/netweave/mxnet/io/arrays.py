"""Batches of arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io.batch import DataBatch, DataDesc, DataIter
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray

LAST = ("pad", "discard", "roll_over")


class NDArrayIter(DataIter):
    """Batches of the rows of arrays.

    Args:
        data: An array, several, or several by name.
        label: The same of labels.
        batch_size: Records in a batch.
        shuffle: Whether each epoch has an order of its own.
        last_batch_handle: What happens to records at the end that make no whole batch: ``pad`` fills up with
            the first ones, ``discard`` leaves them out, ``roll_over`` begins the next epoch with them.
        data_name: Name of the only array.
        label_name: Name of the only label.
        layout: Axes of the data; ``N`` is the batch.

    Raises:
        UsageError: Arrays have not as many records, or fewer than a batch.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: str = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        self.data, self.label = _by_name(data, data_name), _by_name(label, label_name)
        self.shuffle, self.last_batch_handle, self.layout = shuffle, last_batch_handle, layout
        self._axis = max(layout.find("N"), 0)
        counts = {name: array.shape[self._axis] for name, array in [*self.data, *self.label]}
        if len(set(counts.values())) != 1:
            raise UsageError(f"arrays have different numbers of records: {counts}")
        if last_batch_handle not in LAST:
            raise UsageError(f"last_batch_handle is {last_batch_handle!r}, expected one of {', '.join(LAST)}")
        self.num_data = next(iter(counts.values()))
        if last_batch_handle != "pad" and self.num_data < batch_size:
            raise UsageError(f"there are {self.num_data} records, fewer than the {batch_size} of a batch")
        self.idx = np.arange(self.num_data)
        self._rest = np.arange(0)
        self.cursor = -batch_size
        self._begin()

    def _begin(self) -> None:
        if self.shuffle:
            self.idx = random.generator().permutation(self.num_data)
        self._rolled = len(self._rest)
        self._order = np.concatenate([self._rest, self.idx])
        self._rest = np.arange(0)
        self.cursor = -self.batch_size

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and sizes of the data."""
        return [self._describe(name, array) for name, array in self.data]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and sizes of the labels."""
        return [self._describe(name, array) for name, array in self.label]

    def _describe(self, name: str, array: np.ndarray) -> DataDesc:
        shape = list(array.shape)
        shape[self._axis] = self.batch_size
        return DataDesc(name, shape, array.dtype, self.layout)

    def reset(self) -> None:
        """Begin a further epoch; records that roll over come first."""
        self._begin()

    def hard_reset(self) -> None:
        """Begin a further epoch with no records that roll over."""
        self._rest = np.arange(0)
        self._begin()

    def iter_next(self) -> bool:
        """Go on to the next batch; say whether there is one."""
        self.cursor += self.batch_size
        left = len(self._order) - self.cursor
        if 0 < left < self.batch_size and self.last_batch_handle != "pad":
            if self.last_batch_handle == "roll_over":
                self._rest = self._order[self.cursor :]
            return False
        return left > 0

    def _records(self) -> np.ndarray:
        chosen = self._order[self.cursor : self.cursor + self.batch_size]
        return np.concatenate([chosen, np.resize(self._order, self._missing)])

    def _batch(self, arrays: list[tuple[str, np.ndarray]]) -> list[NDArray]:
        records = self._records()
        return [nd.array(array.take(records, self._axis), dtype=array.dtype) for _, array in arrays]

    def getdata(self) -> list[NDArray]:
        """Return the data of the batch."""
        return self._batch(self.data)

    def getlabel(self) -> list[NDArray]:
        """Return the labels of the batch."""
        return self._batch(self.label)

    def getpad(self) -> int:
        """Return how many of its records only fill it; of a first batch, how many have rolled over."""
        return self._rolled if self._is_first else self._missing

    @property
    def _is_first(self) -> bool:
        return self.cursor == 0 and self._rolled > 0

    @property
    def _missing(self) -> int:
        return max(0, self.cursor + self.batch_size - len(self._order))

    def getindex(self) -> np.ndarray:
        """Return the numbers of its records."""
        return self._records()

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), pad=self.getpad())


def _init_data(
    data: Any, allow_empty: bool = False, default_name: str = "data"
) -> list[tuple[str, np.ndarray]]:
    """Return arrays with names; scripts that replace the labels of an iterator call it."""
    found = _by_name(data, default_name)
    if not found and not allow_empty:
        raise UsageError("there are no arrays; pass allow_empty=True where that is meant")
    return found


def _by_name(arrays: Any, default: str) -> list[tuple[str, np.ndarray]]:
    """Return arrays with names, in NumPy: float64 becomes MXNet's default type, float32."""
    if arrays is None:
        return []
    if isinstance(arrays, np.ndarray | NDArray):
        arrays = [arrays]
    if not isinstance(arrays, Mapping):
        many = len(arrays) > 1
        arrays = {f"_{number}_{default}" if many else default: one for number, one in enumerate(arrays)}
    found = []
    for name, array in arrays.items():
        values = array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)
        kind = np.float32 if not isinstance(array, NDArray) else values.dtype
        found.append((name, values.astype(kind, copy=False)))
    return found
