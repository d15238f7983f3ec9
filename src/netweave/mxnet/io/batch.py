"""Batches and iterators of arrays in MXNet."""

from __future__ import annotations

import math
import queue
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from netweave.errors import UsageError
from netweave.mxnet import ndarray as nd
from netweave.mxnet.ndarray import random
from netweave.mxnet.ndarray.array import NDArray
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, Record, Source


class _NameAndShape(NamedTuple):
    name: str
    shape: tuple[int, ...]


class DataDesc(_NameAndShape):
    """Name, sizes, type and layout of an input.

    Args:
        name: Its name.
        shape: Its sizes.
        dtype: Its element type.
        layout: Its axes; ``N`` is the batch.
    """

    dtype: Any
    layout: str

    def __new__(
        cls, name: str, shape: Sequence[int], dtype: Any = np.float32, layout: str = "NCHW"
    ) -> DataDesc:
        """Return name and sizes with type and layout."""
        made = super().__new__(cls, name, tuple(shape))
        made.dtype, made.layout = dtype, layout
        return made

    def __repr__(self) -> str:
        return f"DataDesc[{self.name},{self.shape},{self.dtype},{self.layout}]"

    @staticmethod
    def get_batch_axis(layout: str | None) -> int:
        """Return the axis of the batch in a layout; 0 where there is none."""
        return 0 if layout is None else layout.find("N")

    @staticmethod
    def get_list(shapes: Any, types: Any = None) -> list[DataDesc]:
        """Return descriptions of pairs of name and shape."""
        kinds = dict(types or {})
        return [DataDesc(name, shape, kinds.get(name, np.float32)) for name, shape in shapes]


class DataBatch:
    """Arrays of one batch.

    Args:
        data: Of the data.
        label: Of the labels.
        pad: How many records at the end are only there to fill it.
        index: Numbers of the records.
        bucket_key: Which net the batch is for.
        provide_data: Names and sizes of the data, for a net of several sizes.
        provide_label: The same of the labels.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: int | None = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key, self.provide_data, self.provide_label = bucket_key, provide_data, provide_label

    def __str__(self) -> str:
        data = [one.shape for one in self.data or ()]
        return f"DataBatch: data shapes: {data} label shapes: {[one.shape for one in self.label or ()]}"


class DataIter:
    """An iterator of batches: a subclass has ``next``, or ``iter_next``, ``getdata``, ...; and ``reset``.

    Args:
        batch_size: Records in a batch.
    """

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Self:
        return self

    def reset(self) -> None:
        """Begin a further epoch."""

    def state(self) -> Any:
        """Return what a checkpoint keeps of an epoch that begins, as JSON values; None for nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Begin the epoch that began where ``state`` was called."""

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if not self.iter_next():
            raise StopIteration
        return DataBatch(self.getdata(), self.getlabel(), self.getpad(), self.getindex())

    def __next__(self) -> DataBatch:
        return self.next()

    def iter_next(self) -> bool:
        """Go on to the next batch; say whether there is one."""
        return False

    def getdata(self) -> Any:
        """Return the data of the batch."""
        return None

    def getlabel(self) -> Any:
        """Return the labels of the batch."""
        return None

    def getindex(self) -> Any:
        """Return the numbers of its records."""
        return None

    def getpad(self) -> Any:
        """Return how many of its records only fill it."""
        return 0


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

    def state(self) -> Any:
        """Return the order of the records."""
        return {"order": self._order.tolist(), "rolled": self._rolled}

    def restore(self, state: Any) -> None:
        """Begin an epoch with the records in this order."""
        self._order, self._rolled = np.array(state["order"], np.intp), int(state["rolled"])
        self._rest = np.arange(0)
        self.cursor = -self.batch_size

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
    arrays = _by_name(data, default_name)
    if not arrays and not allow_empty:
        raise UsageError("there are no arrays; pass allow_empty=True where that is meant")
    return arrays


def _by_name(arrays: Any, default: str) -> list[tuple[str, np.ndarray]]:
    """Return arrays with names, in NumPy: float64 becomes MXNet's default type, float32."""
    if arrays is None:
        return []
    if isinstance(arrays, np.ndarray | NDArray):
        arrays = [arrays]
    if not isinstance(arrays, Mapping):
        many = len(arrays) > 1
        arrays = {f"_{number}_{default}" if many else default: one for number, one in enumerate(arrays)}
    named = []
    for name, array in arrays.items():
        values = array.asnumpy() if isinstance(array, NDArray) else np.asarray(array)
        kind = np.float32 if not isinstance(array, NDArray) else values.dtype
        named.append((name, values.astype(kind, copy=False)))
    return named


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

    def state(self) -> Any:
        """Return the number of the epoch."""
        return self._epoch

    def restore(self, state: Any) -> None:
        """Begin the epoch of this number."""
        self._epoch, self._given = int(state), 0
        self._loader.restore({"batch": self._epoch * self._per_epoch})

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
        self._begin_inner()

    def _begin_inner(self) -> None:
        self._inner, self._taken = state_of(self.data_iter), 0

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
            self._begin_inner()

    def state(self) -> Any:
        """Return what the iterator keeps of its own epoch, and how many of its batches are over."""
        return {"inner": self._inner, "taken": self._taken}

    def restore(self, state: Any) -> None:
        """Begin the epoch that began where ``state`` was called."""
        restore_to(self.data_iter, state["inner"])
        self._inner, self._taken, self.cur = state["inner"], int(state["taken"]), 0
        for _ in range(self._taken):
            self.data_iter.next()

    def iter_next(self) -> bool:
        """Go on to the next batch; the iterator begins anew where it ends."""
        if self.cur == self.size:
            return False
        try:
            self.current_batch = self.data_iter.next()
        except StopIteration:
            self.data_iter.reset()
            self._begin_inner()
            self.current_batch = self.data_iter.next()
        self.cur += 1
        self._taken += 1
        return True

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if not self.iter_next() or self.current_batch is None:
            raise StopIteration
        return self.current_batch


def state_of(iterator: Any) -> Any:
    """Return what a checkpoint keeps of an iterator; nothing of one of another class."""
    return iterator.state() if isinstance(iterator, DataIter) else None


def restore_to(iterator: Any, state: Any) -> None:
    """Begin the epoch of an iterator that began where ``state_of`` was called."""
    if state is not None:
        iterator.restore(state)


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
        self._states = [state_of(one) for one in self.iters]
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

    def _end(self) -> None:
        self._stop.set()
        while self._thread.is_alive():
            try:
                self._batches.get(timeout=0.01)
            except queue.Empty:
                continue

    def reset(self) -> None:
        """Begin a further epoch."""
        self._end()
        for one in self.iters:
            one.reset()
        self._start()

    def state(self) -> Any:
        """Return what the iterators keep of the epoch that began last."""
        return self._states

    def restore(self, state: Any) -> None:
        """Begin the epoch that began where ``state`` was called."""
        self._end()
        for one, kept in zip(self.iters, state, strict=True):
            restore_to(one, kept)
        self._start()

    def next(self) -> DataBatch:
        """Return the next batch.

        Raises:
            StopIteration: The epoch is over.
        """
        if self._over:
            raise StopIteration
        parts = self._batches.get()
        if isinstance(parts, BaseException):
            self._over = True
            raise parts
        data = [array for batch in parts for array in batch.data]
        labels = [array for batch in parts for array in batch.label or ()]
        first = parts[0]
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
    item: Any
    while not stop.is_set():
        try:
            item = [one.next() for one in iters]
        except BaseException as error:  # noqa: BLE001 - raised again where the batch is asked for
            item = error
        while not stop.is_set():
            try:
                batches.put(item, timeout=0.05)
                break
            except queue.Full:
                continue
        if isinstance(item, BaseException):
            return


def _renamed(provided: list[list[DataDesc]], names: Any) -> list[DataDesc]:
    tables = names or [{}] * len(provided)
    return [
        DataDesc(table.get(one[0], one[0]), one[1], getattr(one, "dtype", "float32"))
        for table, own in zip(tables, provided, strict=True)
        for one in own
    ]
