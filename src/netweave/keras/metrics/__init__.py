"""Metrics: objects that take batches in, and have a result for all of them."""

from typing import Any

from netweave.keras.metrics import means
from netweave.keras.metrics.base import METRICS, Mean, MeanMetricWrapper, Metric, Sum
from netweave.keras.metrics.confusion import (
    AUC,
    FalseNegatives,
    FalsePositives,
    Precision,
    Recall,
    TrueNegatives,
    TruePositives,
)
from netweave.keras.metrics.means import F1Score, FBetaScore, MeanIoU, R2Score
from netweave.keras.objects import missing

__all__ = [
    "AUC",
    "METRICS",
    "F1Score",
    "FBetaScore",
    "FalseNegatives",
    "FalsePositives",
    "Mean",
    "MeanIoU",
    "MeanMetricWrapper",
    "Metric",
    "Precision",
    "R2Score",
    "Recall",
    "Sum",
    "TrueNegatives",
    "TruePositives",
    "get",
]


def get(identifier: Any) -> Any:
    """Return a metric by its name or settings; a function as it is.

    Raises:
        UsageError: There is none of that name.
    """
    return METRICS.get(identifier)


def __getattr__(name: str) -> Any:
    if name in means.CLASSES or name in {"CosineSimilarity", "RootMeanSquaredError"}:
        return means.CLASSES.get(name) or getattr(means, name)
    if name in METRICS.classes and not isinstance(METRICS.classes[name], type):
        return METRICS.classes[name]
    raise missing("keras.metrics", name, [*__all__, *means.CLASSES, *METRICS.classes])


def __dir__() -> list[str]:
    functions = {name for name, made in METRICS.classes.items() if not isinstance(made, type)}
    return sorted({*__all__, *means.CLASSES, "CosineSimilarity", "RootMeanSquaredError", *functions})
