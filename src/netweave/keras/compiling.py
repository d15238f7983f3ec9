"""Arguments of ``compile``: optimizer, losses and metrics, output by output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.losses import Loss, as_loss
from netweave.keras.losses.functions import apply_mask
from netweave.keras.metrics import Metric, get
from netweave.keras.metrics.base import MeanMetricWrapper
from netweave.keras.objects import suggestion

if TYPE_CHECKING:
    from netweave.keras.optimizers import Optimizer

Shape = tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """The arguments of ``compile``.

    Attributes:
        optimizer: The optimizer.
        loss: A loss, or several by output.
        loss_weights: Factors on the losses.
        metrics: Metrics, or several by output.
        weighted_metrics: Metrics that the weights of records count for.
    """

    optimizer: Optimizer
    loss: Any
    loss_weights: Any
    metrics: Any
    weighted_metrics: Any

    def losses(self, outputs: Sequence[str], predictions: Sequence[Shape]) -> list[Loss | None]:
        """Return the loss of each output.

        Raises:
            UsageError: One is unknown, or names an output that there is not.
        """
        given = per_output(self.loss, outputs, "loss", repeat=True)
        return [_loss(one, shape) for one, shape in zip(given, predictions, strict=True)]

    def factors(self, outputs: Sequence[str]) -> list[float]:
        """Return the factor on the loss of each output."""
        given = per_output(self.loss_weights, outputs, "loss_weights", repeat=False)
        return [1.0 if one is None else float(one) for one in given]

    def metrics_of(
        self, outputs: Sequence[str], labels: Sequence[Shape], predictions: Sequence[Shape]
    ) -> list[tuple[str, int, bool, Metric]]:
        """Return the metrics with the names that a history has them by, their output, and whether weighted.

        Args:
            outputs: Names of the outputs.
            labels: Sizes of the label of each output, with the batch.
            predictions: Sizes of each output.
        """
        metrics = []
        for given, weighted in ((self.metrics, False), (self.weighted_metrics, True)):
            for at, wanted in enumerate(_lists(given, outputs)):
                for identifier in wanted:
                    metric = as_metric(identifier, labels[at], predictions[at])
                    name = metric.name if len(outputs) == 1 else f"{outputs[at]}_{metric.name}"
                    metrics.append((name, at, weighted, metric))
        return metrics


def per_output(given: Any, outputs: Sequence[str], noun: str, *, repeat: bool) -> list[Any]:
    """Return what belongs to each output, from one, a list, or a dictionary by name.

    Raises:
        UsageError: A dictionary names an output that there is not, or a list has another length.
    """
    if isinstance(given, Mapping) and "class_name" not in given:
        unknown = [name for name in given if name not in outputs]
        if unknown:
            raise UsageError(
                f"{noun}: the model has no output {unknown[0]!r}{suggestion(unknown[0], outputs)}"
            )
        return [given.get(name) for name in outputs]
    if isinstance(given, (list, tuple)):
        if len(given) != len(outputs):
            raise UsageError(f"{noun}: {len(given)} given for the outputs {', '.join(outputs)}")
        return list(given)
    return [given] * len(outputs) if repeat or len(outputs) == 1 else [None] * len(outputs)


def _lists(given: Any, outputs: Sequence[str]) -> list[list[Any]]:
    """Return the metrics of each output."""
    if given is None:
        return [[] for _ in outputs]
    if len(outputs) == 1 and isinstance(given, (list, tuple)):
        flat = given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given
        return [list(flat)]
    if isinstance(given, (list, tuple)) and len(given) != len(outputs):
        raise UsageError(
            f"metrics: {len(given)} given for the outputs {', '.join(outputs)}; give a list for each, or a "
            "dictionary by their names"
        )
    rows = per_output(given, outputs, "metrics", repeat=True)
    return [[] if row is None else list(row) if isinstance(row, (list, tuple)) else [row] for row in rows]


def _loss(identifier: Any, prediction: Shape) -> Loss | None:
    if isinstance(identifier, str) and identifier.lower() in {"crossentropy", "ce"}:
        raise UsageError(
            f"loss={identifier!r} depends on the labels; name it: binary_crossentropy for "
            f"predictions {prediction} of one column, else (sparse_)categorical_crossentropy"
        )
    return as_loss(identifier)


def as_metric(identifier: Any, label: Shape, prediction: Shape) -> Metric:
    """Return a metric; ``accuracy`` is the one that fits labels and predictions of these sizes.

    Raises:
        UsageError: There is none of that name.
    """
    name = identifier if isinstance(identifier, str) else None
    if name is not None and name.lower() in {"accuracy", "acc"}:
        is_binary = bool(prediction) and prediction[-1] == 1
        has_column = bool(label) and label[-1] == 1 and (prediction[-1] or 0) > 1
        is_sparse = len(label) < len(prediction) or has_column
        kind = "binary" if is_binary else "sparse_categorical" if is_sparse else "categorical"
        return MeanMetricWrapper(get(f"{kind}_accuracy"), name)
    metric = get(identifier)
    if isinstance(metric, Metric):
        return metric
    return MeanMetricWrapper(metric, name or getattr(metric, "__name__", "metric"))


def _array(outputs: Any, name: str | None) -> Any:
    return None if name is None else outputs.array(name)


class Measured:
    """Everything that a fit or an evaluation measures: the loss, those by output, and the metrics.

    Args:
        loss: Name of the total loss in a net.
        losses: Names of the losses by output.
        metrics: By the name in a history: output, whether weighted, metric.
        predictions: Names of the predictions by output.
        labels: Names of the labels by output.
        weights: Names of the weights by output.
        masks: Names of the masks by output; None where all steps count.
    """

    def __init__(
        self,
        loss: str,
        losses: Mapping[str, str],
        metrics: Sequence[tuple[str, int, bool, Metric]],
        *,
        predictions: Sequence[str],
        labels: Sequence[str],
        weights: Sequence[str | None],
        masks: Sequence[str | None],
    ) -> None:
        self._loss, self._losses, self.metrics = loss, dict(losses), list(metrics)
        self._predictions, self._labels = predictions, labels
        self._weights, self._masks = weights, masks
        self._sums: dict[str, float] = {}
        self._count = 0

    def take(self, outputs: Any, size: int) -> dict[str, float]:
        """Take a batch in.

        Args:
            outputs: Gives arrays by name (``outputs.array(name)``).
            size: Records in it.
        """
        values = {"loss": self._loss, **{f"{name}_loss": value for name, value in self._losses.items()}}
        for name, value in values.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(outputs.array(value)) * size
        self._count += size
        for _, at, weighted, metric in self.metrics:
            # in Keras, means of a function see the mask of the predictions; AUC, recall and the like do not
            mask = self._masks[at] if isinstance(metric, MeanMetricWrapper) else None
            weight = self._weights[at] if weighted else None
            metric.update_state(
                outputs.array(self._labels[at]),
                outputs.array(self._predictions[at]),
                apply_mask(_array(outputs, weight), _array(outputs, mask), "sum"),
            )
        return self.result()

    def add(self, event: Any, size: int) -> dict[str, float]:
        """Take an update in, and return what has been measured in the epoch so far, as Keras tells it."""
        return self.take(event.outputs, size)

    def result(self) -> dict[str, float]:
        """Return what was measured since the last reset."""
        values: dict[str, Any] = {name: total / self._count for name, total in self._sums.items()}
        for name, _, _, metric in self.metrics:
            value = metric.result()
            values[name] = value.tolist() if isinstance(value, np.ndarray) else value
        return values

    def reset(self) -> None:
        """Forget all batches."""
        self._sums, self._count = {}, 0
        for *_, metric in self.metrics:
            metric.reset_state()

    def state(self) -> Any:
        """Return what a checkpoint keeps, as JSON values."""
        metrics = [metric.state() for *_, metric in self.metrics]
        return {"sums": dict(self._sums), "count": self._count, "metrics": metrics}

    def restore(self, state: Any) -> None:
        """Go on where ``state`` was called."""
        self._sums, self._count = dict(state["sums"]), state["count"]
        for (*_, metric), kept in zip(self.metrics, state["metrics"], strict=True):
            metric.restore(kept)
