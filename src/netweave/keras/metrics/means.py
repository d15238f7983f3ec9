"""Metrics that are the mean of a function: accuracies, errors, and losses as metrics."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.keras.losses import functions
from netweave.keras.losses.functions import same_rank
from netweave.keras.metrics.base import METRICS, Mean, MeanMetricWrapper

if TYPE_CHECKING:
    from collections.abc import Callable


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
