"""The epochs of a fit: their events, calls to callbacks, their metrics, and what has been measured so far."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from netweave.keras.older import OlderHistory

if TYPE_CHECKING:
    from netweave.keras.running import Fitted
    from netweave.training.events import Event, Updated

_log = logging.getLogger("netweave.fit")


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """An update is done.

    Attributes:
        epoch: From 0.
        batch: Number in the epoch, from 0.
        metrics: Of this batch, by name; ``loss`` where the net has one.
    """

    epoch: int
    batch: int
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """All records were gone through once more.

    Attributes:
        epoch: From 0.
        metrics: Means over the epoch's batches by name, and after it those of the records to judge by,
            as ``val_...``.
        seconds: That the epoch took.
    """

    epoch: int
    metrics: Mapping[str, float]
    seconds: float


Callback = Callable[[BatchEnd | EpochEnd], object]
"""Told each event; it may read and change the model's arrays, and call its ``stop``."""


@dataclass(frozen=True, slots=True)
class History:
    """The metrics of each epoch of a fit.

    >>> History(({"accuracy": 0.5}, {"accuracy": 0.75}))["accuracy"]
    [0.5, 0.75]

    Attributes:
        epochs: The metrics of each epoch, as in ``EpochEnd``.
        initial_epoch: Number of the first epoch.
    """

    epochs: tuple[Mapping[str, float], ...]
    initial_epoch: int = 0

    def __getitem__(self, metric: str) -> list[float]:
        return [epoch[metric] for epoch in self.epochs]

    @property
    def history(self) -> dict[str, list[float]]:
        """The metrics of all epochs by name, as Keras has them."""
        names = dict.fromkeys(name for epoch in self.epochs for name in epoch)
        return OlderHistory({name: [epoch[name] for epoch in self.epochs if name in epoch] for name in names})

    @property
    def epoch(self) -> list[int]:
        """The numbers of the epochs."""
        return [self.initial_epoch + number for number in range(len(self.epochs))]


@dataclass(frozen=True, slots=True)
class Epochs:
    """The division of updates into epochs.

    Attributes:
        first: Number of the first update.
        count: Batches in an epoch.
        batch_size: Records in a batch.
        last_size: Records in the last batch of an epoch.
        number: Epochs of this fit.
        initial: Number of its first epoch.
    """

    first: int
    count: int
    batch_size: int
    last_size: int
    number: int
    initial: int = 0

    @property
    def end(self) -> int:
        """Number of the update after the last."""
        return self.first + self.number * self.count

    def place(self, iteration: int) -> tuple[int, int]:
        """Return the epoch of an update, and its number in the epoch."""
        epoch, batch = divmod(iteration - self.first, self.count)
        return self.initial + epoch, batch


class Measures(Protocol):
    """The metrics of a fit, for each batch and over an epoch."""

    def add(self, event: Updated, size: int) -> Mapping[str, float]:
        """Take an update of so many records in, and return what its batch is told with."""

    def result(self) -> Mapping[str, float]:
        """Return the metrics of all batches since the last reset."""

    def reset(self) -> None:
        """Begin an epoch."""

    def state(self) -> Any:
        """Return what a checkpoint keeps, as JSON values."""

    def restore(self, state: Any) -> None:
        """Go on where ``state`` was called."""


class EpochRecord:
    """The metrics that a fit has measured so far, epoch by epoch.

    Args:
        shape: How updates make epochs.
        measures: What is measured.
        validate: Returns the metrics of the records to judge by after an epoch; None if there are none.
        callbacks: Who is told.
        is_stopped: Says whether the fit has been asked to end.

    Attributes:
        epochs: The metrics of each epoch.
    """

    def __init__(
        self,
        shape: Epochs,
        measures: Measures,
        *,
        validate: Callable[[int], Mapping[str, float]] | None,
        callbacks: Callbacks,
        is_stopped: Callable[[], bool],
    ) -> None:
        self.epochs: list[dict[str, float]] = []
        self._shape, self._measures, self._validate = shape, measures, validate
        self._callbacks, self._is_stopped = callbacks, is_stopped
        self._began = time.perf_counter()

    def begin(self, iteration: int) -> None:
        """Tell that the update of this number comes next, and the epoch that it begins."""
        if iteration >= self._shape.end or self._is_stopped():
            return
        epoch, batch = self._shape.place(iteration)
        if batch == 0:
            self._measures.reset()
            self._began = time.perf_counter()
            self._callbacks.begin_epoch(epoch)
        self._callbacks.begin_batch(batch)

    def watch(self, event: Event) -> None:
        """Take an event of the run."""
        from netweave.training.events import Updated

        if not isinstance(event, Updated):
            return
        epoch, batch = self._shape.place(event.iteration)
        is_last = batch == self._shape.count - 1
        size = self._shape.last_size if is_last else self._shape.batch_size
        self._callbacks.tell(BatchEnd(epoch, batch, self._measures.add(event, size)))
        if is_last:
            self._end(epoch)
        self.begin(event.iteration + 1)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON values."""
        return {
            "first": self._shape.first,
            "epochs": [dict(epoch) for epoch in self.epochs],
            "measures": self._measures.state(),
            "callbacks": self._callbacks.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.epochs = [dict(epoch) for epoch in state["epochs"]]
        self._measures.restore(state["measures"])
        self._callbacks.restore(state["callbacks"])

    def _end(self, epoch: int) -> None:
        metrics = dict(self._measures.result())
        if self._validate is not None:
            metrics |= {f"val_{name}": number for name, number in self._validate(epoch).items()}
        seconds = time.perf_counter() - self._began
        self.epochs.append(metrics)
        shown = "  ".join(f"{name}={number:.6g}" for name, number in metrics.items())
        _log.info("epoch %d  %s  %.1f s", epoch, shown, seconds)
        self.epochs[-1] = self._callbacks.tell(EpochEnd(epoch, metrics, seconds))


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


class Callbacks:
    """All callbacks of a fit.

    Args:
        model: What is fitted.
        callbacks: Objects with Keras' methods, or functions of ``BatchEnd`` and ``EpochEnd``.
    """

    def __init__(self, model: Fitted, callbacks: Sequence[Callback | KerasCallback]) -> None:
        self._model = model
        self._objects = [callback for callback in callbacks if isinstance(callback, KerasCallback)]
        self._functions: list[Callback] = [
            callback for callback in callbacks if not isinstance(callback, KerasCallback)
        ]
        self._last: dict[str, float] = {}

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
            return logs
        self._call("on_epoch_end", event.epoch, logs)
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
