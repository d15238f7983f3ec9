"""Metrics of numbers: differences, correlations, and outputs that are losses."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy

from netweave.errors import UsageError
from netweave.mxnet.metric.base import EvalMetric, alias, check_label_shapes, register, to_numpy


class _Difference(EvalMetric):
    """The mean over batches of a mean over elements."""

    default: ClassVar[str] = ""

    def __init__(self, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name or self.default, **kwargs)

    def of(self, difference: numpy.ndarray) -> float:
        """Return the metric of the differences of a batch."""
        raise NotImplementedError

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the metric of a batch, and 1."""
        label = label.reshape(-1, 1) if label.ndim == 1 else label
        pred = pred.reshape(-1, 1) if pred.ndim == 1 else pred
        return self.of(label - pred), 1


@register
class MAE(_Difference):
    """The mean of the absolute differences."""

    default = "mae"

    def of(self, difference: numpy.ndarray) -> float:
        """Return the metric of the differences of a batch."""
        return float(numpy.abs(difference).mean())


@register
class MSE(_Difference):
    """The mean of the squared differences."""

    default = "mse"

    def of(self, difference: numpy.ndarray) -> float:
        """Return the metric of the differences of a batch."""
        return float(numpy.square(difference).mean())


@register
class RMSE(_Difference):
    """The root of the mean of the squared differences."""

    default = "rmse"

    def of(self, difference: numpy.ndarray) -> float:
        """Return the metric of the differences of a batch."""
        return math.sqrt(numpy.square(difference).mean())


@alias("pearsonr")
@register
class PearsonCorrelation(EvalMetric):
    """The mean over batches of the correlation of label and prediction."""

    def __init__(self, name: str = "pearsonr", average: str = "macro", **kwargs: Any) -> None:
        if average != "macro":
            raise UsageError(f"pearsonr with average={average!r} is not supported; use 'macro'")
        super().__init__(name, **kwargs)

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the correlation, and 1."""
        check_label_shapes(label, pred, shape=True)
        return float(numpy.corrcoef(pred.ravel(), label.ravel())[0, 1]), 1


@register
class Loss(EvalMetric):
    """The mean of the outputs themselves, which are losses."""

    def __init__(self, name: str = "loss", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._counts_all = True

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch; there may be no labels."""
        for pred in preds if isinstance(preds, list | tuple) else [preds]:
            self.add(to_numpy(pred).sum(), pred.size)
