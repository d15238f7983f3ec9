"""Metrics of counts: what is predicted, and right, above one threshold or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from netweave.errors import UsageError
from netweave.keras.losses.functions import same_rank
from netweave.keras.metrics.base import METRICS, Metric
from netweave.keras.operation import EPSILON

LOWEST = -1e10
"""What Keras puts in the place of predictions that are not among the largest."""

COUNTS = ("true_positives", "false_positives", "true_negatives", "false_negatives")


class Counted(Metric):
    """Weights of records by whether label and prediction are positive, for each threshold.

    Args:
        thresholds: A prediction above is positive.
        name: Name of the metric.
        top_k: Only the k largest predictions of a record count; the others are negative.
        class_id: The one class that is looked at.
    """

    def __init__(
        self,
        thresholds: Sequence[float],
        *,
        name: str | None,
        top_k: int | None = None,
        class_id: int | None = None,
    ) -> None:
        super().__init__(name)
        self.limits = np.asarray(thresholds, np.float32)
        self.top_k, self.class_id = top_k, class_id
        for count in COUNTS:
            self.add_weight((len(self.limits),), name=count)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in."""
        y_pred, y_true = same_rank(np.asarray(y_pred, np.float32), np.asarray(y_true, np.float32))
        weights = None if sample_weight is None else np.asarray(sample_weight, np.float64)
        if self.top_k is not None:
            order = np.argsort(-y_pred, axis=-1, kind="stable")[..., : self.top_k]
            kept = np.zeros_like(y_pred)
            np.put_along_axis(kept, order, 1.0, axis=-1)
            y_pred = y_pred * kept + LOWEST * (1 - kept)
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id, None], y_pred[..., self.class_id, None]
        if weights is not None and weights.ndim < y_pred.ndim:
            weights = weights.reshape(weights.shape + (1,) * (y_pred.ndim - weights.ndim))
        flat = np.ones(y_pred.size) if weights is None else np.broadcast_to(weights, y_pred.shape).reshape(-1)
        positive, labels = y_pred.reshape(1, -1) > self.limits[:, None], y_true.reshape(1, -1) != 0
        self.values["true_positives"] += (positive & labels) @ flat
        self.values["false_positives"] += (positive & ~labels) @ flat
        self.values["true_negatives"] += (~positive & ~labels) @ flat
        self.values["false_negatives"] += (~positive & labels) @ flat


def _divided(a: np.ndarray, b: np.ndarray) -> Any:
    """Return a quotient, 0 where the divisor is 0."""
    return np.divide(a, b, out=np.zeros_like(a), where=b != 0)


def _thresholds(given: Any, default: float) -> list[float]:
    limits = [default] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    wrong = [limit for limit in limits if not (0 <= limit <= 1 or limit == LOWEST)]
    if given is not None and wrong:
        raise UsageError(f"thresholds are {limits}, expected numbers from 0 to 1")
    return limits


class _AtThresholds(Counted):
    """A number for each threshold; a single one for one threshold."""

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        raise NotImplementedError

    def result(self) -> float | np.ndarray:
        """Return the metric."""
        numbers = self.numbers()
        return float(numbers[0]) if len(numbers) == 1 else numbers


class _ShareOfRight(_AtThresholds):
    """The share of true positives among themselves and what is wrong."""

    wrong: ClassVar[str]

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: str | None = None,
    ) -> None:
        limits = _thresholds(thresholds, 0.5 if top_k is None else LOWEST)
        super().__init__(limits, name=name, top_k=top_k, class_id=class_id)
        self.thresholds = thresholds

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        right = self.values["true_positives"]
        return _divided(right, right + self.values[self.wrong])


@METRICS.register()
class Precision(_ShareOfRight):
    """The share of predicted positives that are true."""

    wrong = "false_positives"


@METRICS.register()
class Recall(_ShareOfRight):
    """The share of positives that are predicted."""

    wrong = "false_negatives"


class _Count(_AtThresholds):
    """One of the counts."""

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: str | None = None) -> None:
        super().__init__(_thresholds(thresholds, 0.5), name=name)
        self.thresholds = thresholds


@METRICS.register()
class TruePositives(_Count):
    """Positive, and predicted so."""

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        return self.values["true_positives"]


@METRICS.register()
class FalsePositives(_Count):
    """Predicted positive, and not so."""

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        return self.values["false_positives"]


@METRICS.register()
class TrueNegatives(_Count):
    """Negative, and predicted so."""

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        return self.values["true_negatives"]


@METRICS.register()
class FalseNegatives(_Count):
    """Predicted negative, and not so."""

    def numbers(self) -> Any:
        """Return the metric for each threshold."""
        return self.values["false_negatives"]


@METRICS.register()
class AUC(Counted):
    """The area under a curve over thresholds: ``ROC``, or ``PR`` for precision over recall."""

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: str | None = None,
        thresholds: Sequence[float] | None = None,
        multi_label: bool = False,
        from_logits: bool = False,
    ) -> None:
        if multi_label:
            raise UsageError("AUC(multi_label=True) is not supported; give each output a metric of its own")
        if curve not in {"ROC", "PR"} or summation_method not in {"interpolation", "minoring", "majoring"}:
            raise UsageError(
                f"curve={curve!r} with summation_method={summation_method!r}, expected ROC or PR, with "
                "interpolation, minoring or majoring"
            )
        if thresholds is None:
            inner = [(at + 1) / (num_thresholds - 1) for at in range(num_thresholds - 2)]
        else:
            inner = sorted(thresholds)
        super().__init__([-EPSILON, *inner, 1.0 + EPSILON], name=name)
        self.num_thresholds, self.thresholds = len(inner) + 2, thresholds
        self.curve, self.summation_method = curve, summation_method
        self.multi_label, self.from_logits = multi_label, from_logits

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in."""
        y_pred = np.asarray(y_pred, np.float32)
        if self.from_logits:
            y_pred = 1.0 / (1.0 + np.exp(-y_pred))
        super().update_state(y_true, y_pred, sample_weight)

    def result(self) -> float | np.ndarray:
        """Return the area."""
        right, wrong = self.values["true_positives"], self.values["false_positives"]
        missed, rest = self.values["false_negatives"], self.values["true_negatives"]
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._interpolated(right, wrong, missed)
        recall = _divided(right, right + missed)
        x, y = recall, _divided(right, right + wrong)
        if self.curve == "ROC":
            x, y = _divided(wrong, wrong + rest), recall
        rule: dict[str, Any] = {
            "interpolation": lambda a, b: (a + b) / 2.0,
            "minoring": np.minimum,
            "majoring": np.maximum,
        }
        heights = rule[self.summation_method](y[:-1], y[1:])
        return float(np.sum((x[:-1] - x[1:]) * heights))

    def _interpolated(self, right: np.ndarray, wrong: np.ndarray, missed: np.ndarray) -> float:
        """Return the area of precision over recall, with counts that change evenly between thresholds."""
        total = right + wrong
        steps = right[:-1] - right[1:]
        slope = _divided(steps, np.maximum(total[:-1] - total[1:], 0))
        intercept = right[1:] - slope * total[1:]
        both = (total[:-1] > 0) & (total[1:] > 0)
        ratio = np.where(both, _divided(total[:-1], np.maximum(total[1:], 0)), 1.0)
        areas = slope * (steps + intercept * np.log(ratio))
        return float(np.sum(_divided(areas, np.maximum(right[1:] + missed[1:], 0))))
