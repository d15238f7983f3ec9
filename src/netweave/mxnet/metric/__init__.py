"""``mx.metric``: numbers that are followed over the batches of an epoch."""

from __future__ import annotations

from typing import Any

from netweave.mxnet.metric.base import (
    REGISTRY,
    CompositeEvalMetric,
    CustomMetric,
    EvalMetric,
    alias,
    check_label_shapes,
    create,
    np,
    register,
)
from netweave.mxnet.metric.regression import (
    F1,
    MAE,
    MCC,
    MSE,
    PCC,
    RMSE,
    Accuracy,
    CrossEntropy,
    Loss,
    NegativeLogLikelihood,
    PearsonCorrelation,
    Perplexity,
    TopKAccuracy,
)

__all__ = [
    "F1",
    "MAE",
    "MCC",
    "MSE",
    "PCC",
    "RMSE",
    "Accuracy",
    "CompositeEvalMetric",
    "CrossEntropy",
    "CustomMetric",
    "EvalMetric",
    "Loss",
    "NegativeLogLikelihood",
    "PearsonCorrelation",
    "Perplexity",
    "TopKAccuracy",
    "alias",
    "check_label_shapes",
    "create",
    "np",
    "register",
]


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.metric", name, [klass.__name__ for klass in REGISTRY.values()])
