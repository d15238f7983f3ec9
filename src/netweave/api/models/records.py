"""Records of training and resuming from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from netweave.api.models.events import BatchEnd, Callback, EpochEnd
from netweave.errors import UsageError
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, Source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Indexed, Iterated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.api.models.model import Model
    from netweave.training.data import Record


class Borrowed(Source):
    """A source of somebody else's, which is not closed when it has been read."""

    stored = False  # the source has its own border

    def __init__(self, source: Source) -> None:
        self._source = source
        self.place, self.images, self.groups = source.place, source.images, source.groups
        self.color, self.endless = source.color, source.endless

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int) -> Record:
        """Return a record."""
        return self._source.read(index)

    def read_many(self, indices: np.ndarray) -> Record | None:
        """Return several records at once, if the source can."""
        return self._source.read_many(indices)

    def peek(self) -> Record:
        """Return the first record."""
        return self._source.peek()

    def seek(self, index: int) -> None:
        """Go on at a record."""
        self._source.seek(index)


def as_source(data: Any, labels: Any, inputs: Sequence[str]) -> Source:
    """Return records as a source, one part for each input.

    Args:
        data: An array of all records, several of them by input, a ``data.Source``, or an object with ``len``
            and ``[]``, or an iterable, of records that are tuples of parts.
        labels: An array of all labels, if ``data`` is one of all records.
        inputs: Names of the inputs, the labels' last.

    Raises:
        UsageError: An array is missing, or they do not have as many records.
    """
    if isinstance(data, Source):
        return Borrowed(data)
    if isinstance(data, Mapping):
        missing = [name for name in inputs if name not in data]
        if missing:
            raise UsageError(f"no array given for {', '.join(missing)}; expected one of {', '.join(data)}")
        return Arrays(*(data[name] for name in inputs), names=inputs)
    if isinstance(data, np.ndarray):
        arrays = [data] if labels is None else [data, np.asarray(labels)]
        if len(arrays) != len(inputs):
            raise UsageError(f"{len(arrays)} arrays given for the inputs {', '.join(inputs)}")
        return Arrays(*arrays, names=inputs)
    if isinstance(data, tuple) and len(data) == len(inputs) and all(isinstance(a, np.ndarray) for a in data):
        return Arrays(*data, names=inputs)
    if labels is not None:
        raise UsageError(
            f"labels are given beside {type(data).__name__}, whose records already contain labels"
        )
    if isinstance(data, Sequence) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return Indexed(data)
    if not hasattr(data, "__iter__"):
        raise UsageError(
            f"records are of type {type(data).__name__}, expected arrays, a source or an iterable"
        )
    return Iterated(data)


def record_shapes(source: Source, inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of one record's parts, by input.

    Raises:
        UsageError: A record has another number of parts.
        SourceError: The first record cannot be read.
    """
    parts = source.peek()
    if len(parts) != len(inputs):
        raise UsageError(
            f"{source.describe(0)}: has {len(parts)} parts, expected {len(inputs)}: {', '.join(inputs)}"
        )
    shapes = [np.shape(part) for part in parts]
    if source.images:
        height, width, channels = shapes[0]
        shapes[0] = (channels, height, width)
    return dict(zip(inputs, shapes, strict=True))


def batches(source: Source, inputs: Sequence[str], batch_size: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield all records once, in order, the last batch shorter; what is yielded is used again.

    Raises:
        UsageError: The records have no known end.
        SourceError: A record cannot be read.
    """
    if source.endless:
        raise UsageError(f"{source.place}: its length is unknown; give arrays, or an object with len and []")
    count = len(source)
    order = Order(num_records=count, batch_size=min(batch_size, count), last="short")
    with ThreadedEngine() as engine, Loader(source, inputs, engine=engine, order=order) as loader:
        for _ in range(-(-count // order.batch_size)):
            yield dict(loader.take().arrays)


@runtime_checkable
class KerasCallback(Protocol):
    """An object with Keras' methods, any of them: it is known by ``on_epoch_end``.

    ``set_model(model)``, ``on_train_begin(logs)``, ``on_epoch_begin(epoch, logs)``,
    ``on_train_batch_begin(batch, logs)``, ``on_train_batch_end(batch, logs)``, ``on_epoch_end(epoch, logs)``
    and ``on_train_end(logs)`` are called, where they are there. One with ``state()`` and ``restore(state)``,
    JSON values, has its state in checkpoints. Numbers that it adds to the ``logs`` of an epoch are in the
    history too.
    """

    def on_epoch_end(self, epoch: int, logs: MutableMapping[str, Any] | None = None) -> None:
        """Take in the metrics of an epoch."""


@dataclass(frozen=True, slots=True)
class BatchEndParam:
    """The argument that MXNet passes to a ``batch_end_callback``.

    Attributes:
        epoch: From 0.
        nbatch: Number in the epoch, from 0.
        eval_metric: Of this batch, by name.
        locals: The model, by the name ``self``.
    """

    epoch: int
    nbatch: int
    eval_metric: Mapping[str, float]
    locals: Mapping[str, Any]


BatchEndCallback = Callable[[BatchEndParam], object]
EpochEndCallback = Callable[[int, Any, Mapping[str, Any], Mapping[str, Any]], object]
"""``(epoch, symbol, arg_params, aux_params)``, as MXNet calls it."""


class Callbacks:
    """All callbacks of a fit.

    Args:
        model: What is fitted.
        callbacks: Functions of ``BatchEnd`` and ``EpochEnd``, or objects of Keras's manner.
        batch_end: MXNet's functions, told after each batch.
        epoch_end: MXNet's functions, told after each epoch.
    """

    def __init__(
        self,
        model: Model,
        callbacks: Sequence[Callback | KerasCallback],
        *,
        batch_end: BatchEndCallback | Sequence[BatchEndCallback] | None = None,
        epoch_end: EpochEndCallback | Sequence[EpochEndCallback] | None = None,
    ) -> None:
        self._model = model
        self._objects = [callback for callback in callbacks if isinstance(callback, KerasCallback)]
        self._functions: list[Callback] = [
            callback for callback in callbacks if not isinstance(callback, KerasCallback)
        ]
        self._last: dict[str, float] = {}
        self._batch_end = _as_list(batch_end)
        self._epoch_end = _as_list(epoch_end)

    def begin(self) -> None:
        """Tell that training begins."""
        self._call("set_model", self._model)
        self._call("on_train_begin", {})

    def begin_epoch(self, epoch: int) -> None:
        """Tell that an epoch begins."""
        self._call("on_epoch_begin", epoch, {})

    def begin_batch(self, batch: int) -> None:
        """Tell that a batch begins."""
        self._call("on_train_batch_begin", batch, {})

    def tell_objects(self, method: str, *arguments: Any) -> None:
        """Call a method of Keras' objects, where they have it."""
        self._call(method, *arguments)

    def tell(self, event: BatchEnd | EpochEnd) -> dict[str, float]:
        """Tell of a batch or an epoch; return the metrics with what Keras' objects added to them."""
        for function in self._functions:
            function(event)
        logs: dict[str, Any] = dict(event.metrics)
        self._last = logs
        if isinstance(event, BatchEnd):
            self._call("on_train_batch_end", event.batch, logs)
            for told in self._batch_end:
                told(BatchEndParam(event.epoch, event.batch, logs, {"self": self._model}))
            return logs
        self._call("on_epoch_end", event.epoch, logs)
        for ended in self._epoch_end:
            ended(event.epoch, *self._model.parameters_for_callbacks())
        return {name: float(value) for name, value in logs.items() if isinstance(value, (int, float))}

    def end(self) -> None:
        """Tell that training is over."""
        self._call("on_train_end", self._last)

    def state(self) -> list[Any]:
        """Return the states of those objects that have one, as JSON values."""
        return [callback.state() if hasattr(callback, "state") else None for callback in self._objects]

    def restore(self, states: Sequence[Any]) -> None:
        """Go on where ``state`` was called, with as many callbacks in the same order."""
        for callback, state in zip(self._objects, states, strict=False):
            if state is not None and hasattr(callback, "restore"):
                callback.restore(state)

    def _call(self, method: str, *arguments: Any) -> None:
        for callback in self._objects:
            function = getattr(callback, method, None)
            if function is not None:
                function(*arguments)


def _as_list(given: Any) -> list[Any]:
    if given is None:
        return []
    return list(given) if isinstance(given, Sequence) else [given]
