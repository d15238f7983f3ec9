"""Records by number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from netweave.errors import UsageError
from netweave.mxnet.ndarray.array import NDArray
from netweave.mxnet.recordio import MXIndexedRecordIO


class Dataset:
    """Records by number: a subclass has ``__getitem__`` and ``__len__``."""

    def __getitem__(self, idx: int) -> Any:
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def transform(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the records after a function of all their parts."""
        made = _Transformed(self, fn)
        return made if lazy else SimpleDataset(list(made))

    def transform_first(self, fn: Callable[..., Any], lazy: bool = True) -> Dataset:
        """Return the records after a function of their first part."""
        return self.transform(_First(fn), lazy)

    def filter(self, fn: Callable[..., bool]) -> Dataset:
        """Return the records for which a function says yes."""
        return SimpleDataset([one for one in self if fn(one)])

    def take(self, count: int) -> Dataset:
        """Return the first records."""
        return SimpleDataset([self[number] for number in range(min(count, len(self)))])

    def __iter__(self) -> Any:
        return (self[number] for number in range(len(self)))


class _First:
    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = fn

    def __call__(self, x: Any, *rest: Any) -> Any:
        return (self._fn(x), *rest) if rest else self._fn(x)


class _Transformed(Dataset):
    def __init__(self, data: Dataset, fn: Callable[..., Any]) -> None:
        self._data, self._fn = data, fn

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        record = self._data[idx]
        return self._fn(*record) if isinstance(record, tuple) else self._fn(record)


class SimpleDataset(Dataset):
    """The elements of a list."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, idx: int) -> Any:
        return self._data[idx]


class ArrayDataset(Dataset):
    """The rows of arrays, side by side.

    Raises:
        UsageError: They have not as many rows.
    """

    def __init__(self, *args: Any) -> None:
        counts = [len(one) for one in args]
        if len(set(counts)) != 1:
            raise UsageError(f"arrays have {counts} records, expected as many of each")
        self._data = [one.asnumpy() if isinstance(one, NDArray) and one.ndim == 1 else one for one in args]

    def __len__(self) -> int:
        return len(self._data[0])

    def __getitem__(self, idx: int) -> Any:
        parts = tuple(one[idx] for one in self._data)
        return parts if len(parts) > 1 else parts[0]


class RecordFileDataset(Dataset):
    """The records of a ``.rec`` file with an index."""

    def __init__(self, filename: str) -> None:
        index = str(Path(filename).with_suffix(".idx"))
        self._file = MXIndexedRecordIO(index, filename, "r")

    def __len__(self) -> int:
        return len(self._file.keys)

    def __getitem__(self, idx: int) -> Any:
        return self._file.read_idx(self._file.keys[idx])
