"""The calls of a fit to its callbacks."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from netweave.keras.epochs import BatchEnd, Callback, EpochEnd

if TYPE_CHECKING:
    from netweave.keras.running import Fitted


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
