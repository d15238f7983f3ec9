"""From the events of a run to metrics, epochs and calls of callbacks."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.api.models.events import BatchEnd, EpochEnd

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from netweave.api.models.callbacks import Callbacks
    from netweave.training.events import Event

_log = logging.getLogger("netweave.fit")


@dataclass(frozen=True, slots=True)
class Epochs:
    """How updates make epochs.

    Attributes:
        first: Number of the first update.
        count: Batches in an epoch.
        batch_size: Records in a batch.
        last_size: Records in the last batch of an epoch.
    """

    first: int
    count: int
    batch_size: int
    last_size: int

    @property
    def records(self) -> int:
        """Records in an epoch."""
        return (self.count - 1) * self.batch_size + self.last_size


class EpochRecord:
    """What a fit has measured so far, epoch by epoch.

    Args:
        shape: How updates make epochs.
        names: Names of the metrics by the net's outputs.
        judge: Returns the metrics of the records to judge by; None if there are none.
        loss: Whether the loss is a metric too.
        callbacks: Who is told.

    Attributes:
        epochs: The metrics of each epoch.
    """

    def __init__(
        self,
        shape: Epochs,
        names: Mapping[str, str],
        *,
        judge: Callable[[], Mapping[str, float]] | None,
        loss: bool,
        callbacks: Callbacks,
    ) -> None:
        self.epochs: list[dict[str, float]] = []
        self._shape, self._names, self._judge, self._loss = shape, names, judge, loss
        self._callbacks = callbacks
        self._sums: dict[str, float] = {}
        self._began = time.perf_counter()

    def watch(self, event: Event) -> None:
        """Take an event of the run."""
        from netweave.training.events import Updated, ValuesSeen

        if isinstance(event, ValuesSeen):
            for name, seen in event.values.items():  # as MXNet's Monitor.toc_print
                _log.info("Batch: %7d %30s %s", event.iteration, name, seen)
        if not isinstance(event, Updated):
            return
        epoch, batch = divmod(event.iteration - self._shape.first, self._shape.count)
        is_last = batch == self._shape.count - 1
        if batch == 0:
            self._callbacks.begin_epoch(epoch)
        metrics = {"loss": event.loss} if self._loss else {}
        metrics |= {name: event.outputs[value][0] for value, name in self._names.items()}
        size = self._shape.last_size if is_last else self._shape.batch_size
        for name, number in metrics.items():
            self._sums[name] = self._sums.get(name, 0.0) + number * size
        self._callbacks.tell(BatchEnd(epoch, batch, metrics))
        if is_last:
            self._end(epoch)

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON values."""
        return {
            "first": self._shape.first,
            "epochs": [dict(epoch) for epoch in self.epochs],
            "sums": dict(self._sums),
            "callbacks": self._callbacks.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        self.epochs = [dict(epoch) for epoch in state["epochs"]]
        self._sums = dict(state["sums"])
        self._callbacks.restore(state["callbacks"])

    def _end(self, epoch: int) -> None:
        metrics = {name: total / self._shape.records for name, total in self._sums.items()}
        if self._judge is not None:
            metrics |= {f"val_{name}": number for name, number in self._judge().items()}
        seconds = time.perf_counter() - self._began
        self.epochs.append(metrics)
        shown = "  ".join(f"{name}={number:.6g}" for name, number in metrics.items())
        _log.info("epoch %d  %s  %.1f s", epoch, shown, seconds)
        self._sums, self._began = {}, time.perf_counter()
        self._callbacks.tell(EpochEnd(epoch, metrics, seconds))
