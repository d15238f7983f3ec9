"""The base of iterators over files: batches of Netweave's loader, with MXNet's settings."""

from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.io.batch import DataBatch, DataDesc, DataIter
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from netweave.training.data import Record


class MXDataIter(DataIter):
    """Batches of a source, made ahead of time.

    Args:
        source: The records: data and label, and whatever else a subclass makes labels of.
        batch_size: Records in a batch.
        names: Names of data and label.
        shuffle: Whether each epoch has an order of its own.
        seed: Of what is drawn.
        transforms: What happens to images.
        threads: Threads that make batches; None to find the number by itself.
        dtype: Element type of the data.
        others: Names of the other parts of a record.
    """

    def __init__(
        self,
        source: Source,
        *,
        batch_size: int,
        names: tuple[str, str],
        shuffle: bool = False,
        seed: int = 0,
        transforms: Sequence[Mapping[str, Any]] = (),
        threads: int | None = None,
        dtype: str = "float32",
        others: Sequence[str] = (),
    ) -> None:
        super().__init__(batch_size)
        self._names, self._dtype = names, dtype
        count = len(source)
        self._order = Order(
            num_records=count, batch_size=min(batch_size, count), shuffle=shuffle, seed=seed, last="pad"
        )
        self._engine = ThreadedEngine()
        self._loader = Loader(
            source,
            (*names, *others),
            engine=self._engine,
            order=self._order,
            transforms=transforms,
            threads=threads,
        )
        # also at the end of the program: threads that still run then would abort it
        weakref.finalize(self, _close, self._loader, self._engine)
        self._per_epoch = math.ceil(count / self._order.batch_size)
        self._epoch = self._given = 0

    @property
    def provide_data(self) -> list[DataDesc]:
        """Names and sizes of the data."""
        name = self._names[0]
        return [DataDesc(name, (self.batch_size, *self._loader.shapes[name][1:]), np.dtype(self._dtype))]

    @property
    def provide_label(self) -> list[DataDesc]:
        """Names and sizes of the labels."""
        return [DataDesc(self._names[1], (self.batch_size, *self._label_shape()), np.dtype("float32"))]

    def _label_shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self._loader.shapes[self._names[1]][1:]
        return shape

    def _parts(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """Return data and labels of a batch."""
        return arrays[self._names[0]], arrays[self._names[1]]

    def reset(self) -> None:
        """Begin a further epoch."""
        if self._given != self._per_epoch:
            self._loader.restore({"batch": (self._epoch + 1) * self._per_epoch})
        self._epoch += 1
        self._given = 0

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
            ReadError: A record is damaged.
        """
        if self._given == self._per_epoch:
            raise StopIteration
        batch = self._loader.take()
        self._given += 1
        data, label = self._parts({name: np.array(array) for name, array in batch.arrays.items()})
        pad = batch.padding
        if len(data) < self.batch_size:  # fewer records than a batch: they are repeated
            pad += self.batch_size - len(data)
            data, label = (np.resize(one, (self.batch_size, *one.shape[1:])) for one in (data, label))
        index = self._order.plan(batch.number).records
        arrays = [nd.array(data, dtype=self._dtype)], [nd.array(label)]
        return DataBatch(*arrays, pad=pad, index=index)


def _close(loader: Loader, engine: ThreadedEngine) -> None:
    loader.close()
    engine.close()


class _Share(Source):
    """The share of a source that a worker reads."""

    stored = False  # the source has its own border

    def __init__(self, source: Source, number: int, count: int) -> None:
        if not 0 <= number < count:
            raise UsageError(f"part_index is {number}, expected 0 to {count - 1} (num_parts)")
        self._source = source
        size = len(source)
        self._start, self._stop = size * number // count, size * (number + 1) // count
        self.place, self.images, self.color = source.place, source.images, source.color

    def __len__(self) -> int:
        return self._stop - self._start

    def read(self, index: int) -> Record:
        """Return a record."""
        return self._source.read(self._start + index)

    def close(self) -> None:
        """Close the source."""
        self._source.close()


def share_of_worker(source: Source, settings: dict[str, Any]) -> Source:
    """Return the records of this worker, by the settings ``part_index`` and ``num_parts``.

    Raises:
        UsageError: There is no such part.
    """
    number, count = int(settings.pop("part_index", 0)), int(settings.pop("num_parts", 1))
    return _Share(source, number, count) if count > 1 else source


def require_known(kind: str, settings: Mapping[str, Any]) -> None:
    """Refuse settings that are left over.

    Raises:
        UsageError: There are some.
    """
    if settings:
        raise UsageError(f"{kind} has no setting {', '.join(settings)}; is one misspelt?")


def drop_ignored(settings: dict[str, Any]) -> None:
    """Take out settings of MXNet's threads and buffers, which have no counterpart here."""
    for name in (
        "data_shape",
        "prefetch_buffer",
        "round_batch",
        "ctx",
        "verbose",
        "device_id",
        "shuffle_chunk_size",
        "shuffle_chunk_seed",
        "silent",
        "num_epoch",
    ):
        settings.pop(name, None)
