"""Any iterable of Python: a list, a generator, a data set of somebody else's."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.source import EndOfDataError, Record, Source

if TYPE_CHECKING:
    from collections.abc import Iterable


class _Parted(Source):
    """Records that somebody's object gives: a tuple of parts, a mapping of parts, or one array each."""

    stored = False

    def __init__(self, place: str, names: Sequence[str]) -> None:
        self.place = place
        self._names = tuple(names)

    def parts(self, item: Any, index: int) -> Record:
        """Return the parts of a record; a first one of three axes is an image (channels, height, width)."""
        if isinstance(item, Mapping):
            missing = [name for name in self._names if name not in item]
            if missing:
                found = ", ".join(map(str, item))
                raise ReadError(f"has no part {missing[0]!r}, only {found}", place=self.describe(index))
            item = [item[name] for name in self._names or item]
        parts = item if isinstance(item, tuple | list) else [item]
        first, *rest = (np.asarray(part) for part in parts)
        return (first.transpose(1, 2, 0) if first.ndim == 3 else first, *rest)


class Indexed(_Parted):
    """Records of an object with ``len`` and ``[]``, read from several threads.

    Args:
        records: The object.
        names: Which parts of a mapping are taken, in order; all if empty.
    """

    def __init__(self, records: Any, names: Sequence[str] = ()) -> None:
        super().__init__(f"{type(records).__name__} in memory", names)
        self._records = records
        self.images = self.peek()[0].ndim == 3

    def __len__(self) -> int:
        return len(self._records)

    def read(self, index: int) -> Record:
        """Return a record."""
        return self.parts(self._records[index], index)


class Iterated(_Parted):
    """Records of an iterable, taken in its own order by one thread at a time.

    An iterable that can be begun again is, whenever it ends. A run that goes on in the middle goes through
    it up to there.

    Args:
        records: The iterable.
        names: Which parts of a mapping are taken, in order; all if empty.
    """

    endless = True

    def __init__(self, records: Iterable[Any], names: Sequence[str] = ()) -> None:
        super().__init__(f"{type(records).__name__} of Python", names)
        self._lock = threading.Lock()
        self._records = records
        self._iterator = iter(records)
        self._again = self._iterator is not records
        self._taken = 0
        self._waiting: dict[int, Any] = {}
        self.images = self.peek()[0].ndim == 3

    def __len__(self) -> int:
        raise TypeError("the number of records is unknown")

    def peek(self) -> Record:
        """Return the first record, which can be read again afterwards."""
        with self._lock:
            self._take_up_to(0)
            return self.parts(self._waiting[0], 0)

    def read(self, index: int) -> Record:
        """Return a record; each can be read once, those before it being kept until they are."""
        with self._lock:
            self._take_up_to(index)
            if index not in self._waiting:
                raise ReadError("was already read once, and cannot be read again", place=self.describe(index))
            item = self._waiting.pop(index)
        return self.parts(item, index)

    def seek(self, index: int) -> None:
        """Go on at a record; those before it will not be asked for."""
        with self._lock:
            self._waiting = {at: item for at, item in self._waiting.items() if at >= index}
            while self._taken < index:
                self._next()

    def _take_up_to(self, index: int) -> None:
        while self._taken <= index:
            item = self._next()
            self._waiting[self._taken - 1] = item

    def _next(self) -> Any:
        for begun in (False, True):
            try:
                item = next(self._iterator)
            except StopIteration:
                if begun or not self._again:
                    break
                self._iterator = iter(self._records)
            else:
                self._taken += 1
                return item
        raise EndOfDataError
