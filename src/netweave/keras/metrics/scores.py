"""Metrics over all classes of a net: F scores, overlaps, and how much of the variance is explained."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.losses.functions import same_rank
from netweave.keras.metrics.base import METRICS, Metric


def _ratio(a: np.ndarray, b: np.ndarray) -> Any:
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


@METRICS.register()
class FBetaScore(Metric):
    """``(1 + b^2) precision recall / (b^2 precision + recall)`` for each class, or a mean of them."""

    def __init__(
        self,
        average: str | None = None,
        beta: float = 1.0,
        threshold: float | None = None,
        name: str | None = "fbeta_score",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        if average not in {None, "micro", "macro", "weighted"}:
            raise UsageError(f"average is {average!r}, expected None, micro, macro or weighted")
        self.average, self.beta, self.threshold = average, beta, threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in; without a threshold the largest prediction of a record is the positive one."""
        labels, y_pred = np.asarray(y_true, np.float64), np.asarray(y_pred, np.float32)
        if self.threshold is None:
            best = np.max(y_pred, axis=-1, keepdims=True)
            predicted = ((y_pred >= best) & (np.abs(y_pred) > 1e-9)).astype(np.float64)
        else:
            predicted = (y_pred > self.threshold).astype(np.float64)
        weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        column = weights.reshape(len(labels), 1)
        axis = None if self.average == "micro" else 0
        counts = {
            "right": predicted * labels,
            "wrong": predicted * (1 - labels),
            "missed": (1 - predicted) * labels,
            "weight": labels,
        }
        for name, values in counts.items():
            total = np.sum(values * column, axis=axis)
            self.values[name] = self.values.get(name, np.zeros_like(total)) + total

    def result(self) -> float | np.ndarray:
        """Return the scores, or their mean."""
        if not self.values:
            return 0.0
        right, square = self.values["right"], self.beta**2
        precision = _ratio(right, right + self.values["wrong"])
        recall = _ratio(right, right + self.values["missed"])
        score = _ratio((1 + square) * precision * recall, square * precision + recall)
        if self.average == "weighted":
            weight = self.values["weight"]
            return float(np.sum(score * _ratio(weight, np.sum(weight, keepdims=True))))
        return score if self.average is None else float(np.mean(score))

    def reset_state(self) -> None:
        """Forget all batches."""
        self.values.clear()


@METRICS.register()
class F1Score(FBetaScore):
    """The harmonic mean of precision and recall."""

    def __init__(
        self,
        average: str | None = None,
        threshold: float | None = None,
        name: str | None = "f1_score",
        dtype: str | None = None,
    ) -> None:
        super().__init__(average, 1.0, threshold, name, dtype)


@METRICS.register()
class MeanIoU(Metric):
    """The mean over classes of what labels and predictions share, in parts of what either has."""

    def __init__(
        self,
        num_classes: int,
        name: str | None = None,
        dtype: str | None = None,
        sparse_y_true: bool = True,
        sparse_y_pred: bool = True,
        axis: int = -1,
    ) -> None:
        super().__init__(name, dtype)
        self.num_classes, self.axis = num_classes, axis
        self.sparse_y_true, self.sparse_y_pred = sparse_y_true, sparse_y_pred
        self.add_weight((num_classes, num_classes), name="confusion")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in."""
        labels = np.asarray(y_true) if self.sparse_y_true else np.argmax(y_true, self.axis)
        predicted = np.asarray(y_pred) if self.sparse_y_pred else np.argmax(y_pred, self.axis)
        weights = np.ones(labels.shape) if sample_weight is None else np.asarray(sample_weight, np.float64)
        weights = weights.reshape(weights.shape + (1,) * (labels.ndim - weights.ndim))
        places = (labels.reshape(-1).astype(int), predicted.reshape(-1).astype(int))
        np.add.at(self.values["confusion"], places, np.broadcast_to(weights, labels.shape).reshape(-1))

    def result(self) -> float | np.ndarray:
        """Return the mean over the classes that occur."""
        table = self.values["confusion"]
        shared = np.diag(table)
        either = table.sum(0) + table.sum(1) - shared
        occurs = either != 0
        return float(np.mean(shared[occurs] / either[occurs])) if occurs.any() else 0.0


@METRICS.register()
class R2Score(Metric):
    """1 less the squared differences, in parts of the labels' variance."""

    def __init__(
        self,
        class_aggregation: str | None = "uniform_average",
        num_regressors: int = 0,
        name: str | None = "r2_score",
        dtype: str | None = None,
    ) -> None:
        super().__init__(name, dtype)
        if class_aggregation not in {None, "uniform_average"} or num_regressors:
            raise UsageError("R2Score: only class_aggregation='uniform_average' or None is supported")
        self.class_aggregation, self.num_regressors = class_aggregation, num_regressors

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in."""
        labels, predicted = same_rank(np.asarray(y_true, np.float64), np.asarray(y_pred, np.float64))
        weights = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight, np.float64)
        column = weights.reshape(len(labels), 1)
        sums = {
            "labels": labels * column,
            "squares": labels**2 * column,
            "errors": (labels - predicted) ** 2 * column,
            "count": np.broadcast_to(column, labels.shape),
        }
        for name, values in sums.items():
            self.values[name] = self.values.get(name, 0.0) + values.sum(0)

    def result(self) -> float | np.ndarray:
        """Return the score."""
        if not self.values:
            return 0.0
        mean = self.values["labels"] / self.values["count"]
        total = self.values["squares"] - self.values["labels"] * mean
        scores = np.where(total == 0, 0.0, 1 - _ratio(self.values["errors"], total))
        return scores if self.class_aggregation is None else float(np.mean(scores))

    def reset_state(self) -> None:
        """Forget all batches."""
        self.values.clear()
