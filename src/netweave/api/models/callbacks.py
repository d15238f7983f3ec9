"""Callbacks of a fit, in three manners: functions of our events, Keras's objects, MXNet's functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from netweave.api.models.events import BatchEnd, Callback, EpochEnd
from netweave.errors import UsageError

if TYPE_CHECKING:
    from netweave.api.models.model import Model


@runtime_checkable
class KerasCallback(Protocol):
    """An object with Keras's methods, any of them: it is known by ``on_epoch_end``.

    ``set_model(model)``, ``on_train_begin(logs)``, ``on_epoch_begin(epoch, logs)``,
    ``on_train_batch_end(batch, logs)``, ``on_epoch_end(epoch, logs)`` and ``on_train_end(logs)`` are called,
    where they are there. One with ``state()`` and ``restore(state)``, JSON values, has its state in
    checkpoints.
    """

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Take in the metrics of an epoch."""


@dataclass(frozen=True, slots=True)
class BatchEndParam:
    """What MXNet tells a ``batch_end_callback``.

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


class EarlyStopping:
    """Ends a fit when a metric has not improved for some epochs; as Keras's.

    Args:
        monitor: The metric, as in ``EpochEnd``.
        min_delta: Less of a change than this is no improvement.
        patience: So many epochs without improvement are allowed.
        mode: ``min``, ``max``, or ``auto``: the larger the better for accuracies and the like.

    Attributes:
        stopped_epoch: The epoch after which the fit was stopped; None if it was not.

    Raises:
        UsageError: There is no such mode.
    """

    def __init__(
        self, monitor: str = "val_loss", *, min_delta: float = 0.0, patience: int = 0, mode: str = "auto"
    ) -> None:
        if mode not in {"auto", "min", "max"}:
            raise UsageError(f"mode is {mode!r}, expected auto, min or max")
        grows = any(word in monitor for word in ("acc", "auc", "f1", "precision", "recall"))
        self._sign = 1.0 if mode == "max" or (mode == "auto" and grows) else -1.0
        self._monitor, self._min_delta, self._patience = monitor, abs(min_delta), patience
        self._best = -math.inf
        self._waited = 0
        self.stopped_epoch: int | None = None
        self._model: Model | None = None

    def set_model(self, model: Model) -> None:
        """Be told of the model."""
        self._model = model

    def on_epoch_end(self, epoch: int, logs: Mapping[str, float] | None = None) -> None:
        """Take in the metrics of an epoch.

        Raises:
            UsageError: The metric is not among them.
        """
        if self._monitor not in (logs or {}):
            known = ", ".join(logs or ())
            raise UsageError(
                f"early stopping looks at {self._monitor!r}, which is not measured; expected one of {known}"
            )
        value = self._sign * (logs or {})[self._monitor]
        if value > self._best + self._min_delta:
            self._best, self._waited = value, 0
            return
        self._waited += 1
        if self._waited > self._patience and self._model is not None:
            self.stopped_epoch = epoch
            self._model.stop()

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {"best": self._best, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self._best, self._waited = state["best"], state["waited"]


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
        self._batch_end = _as_list(batch_end)
        self._epoch_end = _as_list(epoch_end)

    def begin(self) -> None:
        """Tell that training begins."""
        self._call("set_model", self._model)
        self._call("on_train_begin", {})

    def begin_epoch(self, epoch: int) -> None:
        """Tell that an epoch begins."""
        self._call("on_epoch_begin", epoch, {})

    def tell(self, event: BatchEnd | EpochEnd) -> None:
        """Tell of a batch or an epoch."""
        for function in self._functions:
            function(event)
        logs = dict(event.metrics)
        if isinstance(event, BatchEnd):
            self._call("on_train_batch_end", event.batch, logs)
            for told in self._batch_end:
                told(BatchEndParam(event.epoch, event.batch, logs, {"self": self._model}))
            return
        self._call("on_epoch_end", event.epoch, logs)
        for ended in self._epoch_end:
            ended(event.epoch, self._model.symbol, *self._model.get_params())

    def end(self) -> None:
        """Tell that training is over."""
        self._call("on_train_end", {})

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
