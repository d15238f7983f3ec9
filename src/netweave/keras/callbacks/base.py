"""The base of callbacks: objects that are told about the progress of a fit."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy as np

from netweave.errors import UsageError

Logs = MutableMapping[str, Any] | None
"""What was measured, by name. Later callbacks and the history have what a callback adds, as in Keras."""


class Callback:
    """Told what a fit does; each method may be overridden.

    Attributes:
        model: The model.
        params: ``verbose``, ``epochs`` and ``steps`` of the fit.
    """

    def __init__(self) -> None:
        self.model: Any = None
        self.params: Mapping[str, Any] = {}

    def set_model(self, model: Any) -> None:
        """Be told of the model."""
        self.model = model

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Be told of the fit's numbers."""
        self.params = params

    def on_train_begin(self, logs: Logs = None) -> None:
        """Told before the first epoch."""

    def on_train_end(self, logs: Logs = None) -> None:
        """Told after the last epoch."""

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        """Told before an epoch, counted from 0."""

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Told after an epoch, with its metrics."""

    def on_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Told before a batch; another name of ``on_train_batch_begin``."""

    def on_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Told after a batch; another name of ``on_train_batch_end``."""

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Told before a batch of an epoch, counted from 0."""
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Told after a batch, with the metrics of the epoch so far."""
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Logs = None) -> None:
        """Told before records are judged."""

    def on_test_end(self, logs: Logs = None) -> None:
        """Told after records were judged, with the metrics."""

    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Told before a batch is judged."""

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Told after a batch was judged, with the metrics so far."""

    def on_predict_begin(self, logs: Logs = None) -> None:
        """Told before records are predicted."""

    def on_predict_end(self, logs: Logs = None) -> None:
        """Told after records were predicted."""

    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Told before a batch is predicted."""

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Told after a batch was predicted, with the outputs."""


class Monitoring(Callback):
    """A callback that looks at one metric.

    Args:
        monitor: The metric.
        mode: ``min``, ``max``, or ``auto``: the larger the better for accuracies and the like.
        min_delta: Less of a change than this is no improvement.

    Raises:
        UsageError: There is no such mode.
    """

    GROWING = ("acc", "auc", "f1", "fbeta", "precision", "recall", "iou", "r2")

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        super().__init__()
        if mode not in {"auto", "min", "max"}:
            raise UsageError(f"mode is {mode!r}, expected auto, min or max")
        grows = mode == "max" or (mode == "auto" and any(word in monitor for word in self.GROWING))
        self.monitor, self._sign, self.min_delta = monitor, 1.0 if grows else -1.0, abs(min_delta)

    @property
    def worst(self) -> float:
        """The worst possible value."""
        return -self._sign * float(np.inf)

    def is_better(self, value: float, than: float) -> bool:
        """Return whether a value is an improvement."""
        return self._sign * value > self._sign * than + self.min_delta

    def value(self, logs: Logs) -> float | None:
        """Return the metric; None after an epoch without validation, for a metric of it.

        Raises:
            UsageError: No metric has the name.
        """
        logs = logs or {}
        if self.monitor in logs:
            return float(logs[self.monitor])
        if self.monitor.startswith("val_") and any(name.startswith("val_") for name in self._seen(logs)):
            return None
        known = ", ".join(logs)
        raise UsageError(
            f"{type(self).__name__} looks at {self.monitor!r}, which is not measured; expected one of {known}"
        )

    def _seen(self, logs: Mapping[str, Any]) -> set[str]:
        """Return the names of all metrics that were ever told: not every epoch has a validation."""
        self.__dict__.setdefault("_names", set()).update(logs)
        names: set[str] = self.__dict__["_names"]
        return names
