"""Iterators over other iterators."""

from __future__ import annotations

import queue
import threading
from typing import Any

from netweave.mxnet.io.batch import DataBatch, DataDesc, DataIter


class ResizeIter(DataIter):
    """Another iterator with epochs of ``size`` batches.

    Args:
        data_iter: The iterator.
        size: Batches in an epoch.
        reset_internal: Whether the iterator begins anew with each epoch.
    """

    def __init__(self, data_iter: DataIter, size: int, reset_internal: bool = True) -> None:
        super().__init__(data_iter.batch_size)
        self.data_iter, self.size, self.reset_internal = data_iter, size, reset_internal
        self.cur = 0
        self.current_batch: DataBatch | None = None

    @property
    def provide_data(self) -> Any:
        """Names and sizes of the data."""
        return self.data_iter.provide_data  # type: ignore[attr-defined]  # what wraps an iterator has one

    @property
    def provide_label(self) -> Any:
        """Names and sizes of the labels."""
        return self.data_iter.provide_label  # type: ignore[attr-defined]  # what wraps an iterator has one

    def reset(self) -> None:
        """Begin a further epoch."""
        self.cur = 0
        if self.reset_internal:
            self.data_iter.reset()

    def iter_next(self) -> bool:
        """Go on to the next batch; the iterator begins anew where it ends."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        return True

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if not self.iter_next() or self.current_batch is None:
            raise StopIteration
        return self.current_batch


class PrefetchingIter(DataIter):
    """Iterators whose next batch is made on a thread; their batches are joined side by side.

    Args:
        iters: The iterators.
        rename_data: New names of the data, a mapping for each iterator.
        rename_label: New names of the labels.
    """

    def __init__(self, iters: Any, rename_data: Any = None, rename_label: Any = None) -> None:
        self.iters = iters if isinstance(iters, list) else [iters]
        super().__init__(self.iters[0].provide_data[0][1][0])
        self.n_iter = len(self.iters)
        self.rename_data, self.rename_label = rename_data, rename_label
        self._start()

    def _start(self) -> None:
        self._batches: queue.Queue[Any] = queue.Queue(maxsize=1)
        self._over = False
        self._stop = threading.Event()
        arguments = (self.iters, self._batches, self._stop)
        self._thread = threading.Thread(target=_fill, args=arguments, daemon=True)
        self._thread.start()

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and sizes of the data."""
        return _renamed([one.provide_data for one in self.iters], self.rename_data)

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and sizes of the labels."""
        return _renamed([one.provide_label for one in self.iters], self.rename_label)

    def reset(self) -> None:
        """Begin a further epoch."""
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._batches.get(timeout=0.01)
            except queue.Empty:
                continue
        for one in self.iters:
            one.reset()
        self._start()

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if self._over:
            raise StopIteration
        found = self._batches.get()
        if isinstance(found, BaseException):
            self._over = True
            raise found
        data = [array for batch in found for array in batch.data]
        labels = [array for batch in found for array in batch.label or ()]
        first = found[0]
        return DataBatch(
            data,
            labels,
            first.pad,
            first.index,
            bucket_key=first.bucket_key,
            provide_data=self.provide_data if first.provide_data is None else first.provide_data,
            provide_label=self.provide_label if first.provide_label is None else first.provide_label,
        )

    def iter_next(self) -> bool:
        """Not offered beside ``next``."""
        raise NotImplementedError("call next()")


def _fill(iters: list[DataIter], batches: queue.Queue[Any], stop: threading.Event) -> None:
    found: Any
    while not stop.is_set():
        try:
            found = [one.next() for one in iters]
        except BaseException as error:  # noqa: BLE001 - raised again where the batch is asked for
            found = error
        while not stop.is_set():
            try:
                batches.put(found, timeout=0.05)
                break
            except queue.Full:
                continue
        if isinstance(found, BaseException):
            return


def _renamed(provided: list[list[DataDesc]], names: Any) -> list[DataDesc]:
    tables = names or [{}] * len(provided)
    return [
        DataDesc(table.get(one[0], one[0]), one[1], getattr(one, "dtype", "float32"))
        for table, own in zip(tables, provided, strict=True)
        for one in own
    ]
