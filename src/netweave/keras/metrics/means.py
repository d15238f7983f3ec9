"""Means and scores of Keras."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.losses import functions
from netweave.keras.losses.functions import same_rank
from netweave.keras.metrics.base import METRICS, Mean, MeanMetricWrapper, Metric


def accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return where a prediction is the label."""
    y_true, y_pred = same_rank(y_true, y_pred)
    return np.mean(np.equal(y_true, y_pred), axis=-1)


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """Return where a prediction is on its label's side of a threshold."""
    y_true, y_pred = same_rank(y_true, y_pred)
    return np.equal(y_true, y_pred > threshold).astype(np.float32)


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return where the largest prediction is at the largest label."""
    return np.equal(np.argmax(y_true, -1), np.argmax(y_pred, -1)).astype(np.float32)


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Return where the largest prediction is at the label's place."""
    return np.equal(_numbers(y_true, y_pred), np.argmax(y_pred, -1)).astype(np.float32)


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Return where the largest label is among the k largest predictions."""
    return _in_top(np.argmax(y_true, -1), y_pred, k)


def sparse_top_k_categorical_accuracy(
    y_true: Any, y_pred: Any, k: int = 5, from_sorted_ids: bool = False
) -> Any:
    """Return where the label is among the k largest predictions, or among the first k numbers of classes."""
    if from_sorted_ids:
        return np.any(np.equal(y_true.reshape(-1, 1), y_pred[:, :k]), axis=-1).astype(np.float32)
    return _in_top(_numbers(y_true, y_pred), y_pred, k)


def _numbers(y_true: Any, y_pred: Any) -> Any:
    has_column = y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1
    return np.squeeze(y_true, -1) if has_column else y_true


def _in_top(numbers: np.ndarray, y_pred: np.ndarray, k: int) -> Any:
    """Say where fewer than k predictions are above that of the label (``tf.nn.in_top_k``)."""
    own = np.take_along_axis(y_pred, numbers.astype(np.int64)[..., None], -1)
    return ((y_pred > own).sum(-1) < k).astype(np.float32)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "Accuracy": (accuracy, ()),
    "BinaryAccuracy": (binary_accuracy, ()),
    "CategoricalAccuracy": (categorical_accuracy, ()),
    "SparseCategoricalAccuracy": (sparse_categorical_accuracy, ()),
    "TopKCategoricalAccuracy": (top_k_categorical_accuracy, ()),
    "SparseTopKCategoricalAccuracy": (sparse_top_k_categorical_accuracy, ()),
    "MeanSquaredError": (functions.mean_squared_error, ("mse",)),
    "MeanAbsoluteError": (functions.mean_absolute_error, ("mae",)),
    "MeanAbsolutePercentageError": (functions.mean_absolute_percentage_error, ("mape",)),
    "MeanSquaredLogarithmicError": (functions.mean_squared_logarithmic_error, ("msle",)),
    "LogCoshError": (functions.log_cosh, ("log_cosh",)),
    "Hinge": (functions.hinge, ()),
    "SquaredHinge": (functions.squared_hinge, ()),
    "CategoricalHinge": (functions.categorical_hinge, ()),
    "KLDivergence": (functions.kl_divergence, ("kld",)),
    "Poisson": (functions.poisson, ()),
    "BinaryCrossentropy": (functions.binary_crossentropy, ("bce",)),
    "CategoricalCrossentropy": (functions.categorical_crossentropy, ("cce",)),
    "SparseCategoricalCrossentropy": (functions.sparse_categorical_crossentropy, ("scce",)),
}
"""Classes with the functions whose mean they are, and further names of the function."""

OWN_NAMES = {"LogCoshError": "logcosh"}


def _metric_class(class_name: str, function: Callable[..., Any], names: tuple[str, ...]) -> type[Mean]:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    settings = [
        one.replace(annotation=one.empty)
        for name, one in inspect.signature(function).parameters.items()
        if name not in {"y_true", "y_pred"}
    ]
    common = [
        inspect.Parameter("name", kind, default=OWN_NAMES.get(class_name, function.__name__)),
        inspect.Parameter("dtype", kind, default=None),
    ]
    own = {"k"}  # Keras has it first, all other settings behind the common ones
    before = [one for one in settings if one.name in own]
    behind = [one for one in settings if one.name not in own]
    signature = inspect.Signature([inspect.Parameter("self", kind), *before, *common, *behind])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        given.pop("self")
        MeanMetricWrapper.__init__(self, function, given.pop("name"), given.pop("dtype"), **given)
        self.__dict__.update(given)

    def get_config(self: Any) -> dict[str, Any]:
        return {"name": self.name, **self.settings}

    initialise.__signature__ = signature  # type: ignore[attr-defined]  # inspect reads it
    members = {"__init__": initialise, "get_config": get_config, "__doc__": function.__doc__}
    made: type[Mean] = METRICS.register()(type(class_name, (MeanMetricWrapper,), members))
    for name in (function.__name__, *names):
        METRICS.classes[name] = function
    return made


CLASSES = {name: _metric_class(name, *row) for name, row in FUNCTIONS.items()}


@METRICS.register()
class CosineSimilarity(MeanMetricWrapper):
    """The mean of the cosines between labels and predictions: unlike the loss, large is good."""

    def __init__(
        self, name: str | None = "cosine_similarity", dtype: str | None = None, axis: int = -1
    ) -> None:
        super().__init__(lambda a, b: -functions.cosine_similarity(a, b, axis=axis), name, dtype)
        self.axis = axis

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        return {"name": self.name, "axis": self.axis}


@METRICS.register("rmse")
class RootMeanSquaredError(Mean):
    """The root of the mean of the squared differences."""

    def __init__(self, name: str | None = "root_mean_squared_error", dtype: str | None = None) -> None:
        super().__init__(name, dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]  # Keras' metrics take other arguments than their base, too
        """Take a batch in."""
        y_true, y_pred = same_rank(np.asarray(y_true, np.float32), np.asarray(y_pred, np.float32))
        super().update_state(np.square(y_true - y_pred), sample_weight)

    def result(self) -> float | np.ndarray:
        """Return the metric."""
        return float(np.sqrt(super().result()))


METRICS.classes["acc"] = METRICS.classes["accuracy"]


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
