"""Metrics of MXNet."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy

from netweave.errors import UsageError
from netweave.mxnet.metric.base import EvalMetric, alias, as_lists, check_label_shapes, register, to_numpy


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


LEAST = 1e-12
"""Added to a probability before its logarithm."""

LEAST_PERPLEXITY = 1e-10
"""The smallest probability that counts for a perplexity."""


@alias("acc")
@register
class Accuracy(EvalMetric):
    """The share of rows whose largest element is at the label's place."""

    def __init__(self, axis: int = 1, name: str = "accuracy", **kwargs: Any) -> None:
        self.axis = axis
        super().__init__(name, **kwargs)

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the rows that are right, and all."""
        if pred.shape != label.shape:
            pred = pred.argmax(self.axis)
        predicted, wanted = pred.astype(numpy.int32).ravel(), label.astype(numpy.int32).ravel()
        check_label_shapes(wanted, predicted)
        return (predicted == wanted).sum(), predicted.size


@alias("top_k_accuracy", "top_k_acc")
@register
class TopKAccuracy(EvalMetric):
    """The share of rows whose label is among the ``top_k`` largest elements."""

    def __init__(self, top_k: int = 1, name: str = "top_k_accuracy", **kwargs: Any) -> None:
        if top_k <= 1:
            raise UsageError("top_k_accuracy with top_k=1 is accuracy; use mx.metric.Accuracy()")
        self.top_k = top_k
        super().__init__(f"{name}_{top_k}", **kwargs)

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the rows that are right, and all."""
        best = numpy.argpartition(pred.astype(numpy.float32), -self.top_k)[:, -self.top_k :]
        return (best == label.astype(numpy.int32).reshape(-1, 1)).sum(), len(best)


class _Binary(EvalMetric):
    """A metric of a table of two classes: for each batch, or over all (``average='micro'``)."""

    def __init__(self, name: str, average: str = "macro", **kwargs: Any) -> None:
        self.average = average
        super().__init__(name, **kwargs)

    def reset(self) -> None:
        """Forget everything."""
        self._all = numpy.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        """Forget what counts since the last ``reset_local``."""
        self._local = numpy.zeros((2, 2))
        super().reset_local()

    def score(self, table: numpy.ndarray) -> float:
        """Return the metric of a table: rows are labels, columns predictions."""
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch."""
        batch = numpy.zeros((2, 2))
        for label, pred in zip(*as_lists(labels, preds), strict=True):
            wanted, predicted = to_numpy(label).astype(numpy.int32).ravel(), to_numpy(pred).argmax(1).ravel()
            if numpy.unique(wanted).size > 2:
                raise UsageError(f"{self.name} is for two classes; the labels are {numpy.unique(wanted)}")
            numpy.add.at(batch, ((wanted == 1).astype(int), (predicted == 1).astype(int)), 1)
        self._local += batch
        self._all += batch
        if self.average == "macro":
            self.add(self.score(batch), 1)
        else:
            self.num_inst, self.global_num_inst = self._local.sum(), self._all.sum()
            self.sum_metric = self.score(self._local) * self.num_inst
            self.global_sum_metric = self.score(self._all) * self.global_num_inst


@register
class F1(_Binary):
    """The harmonic mean of precision and recall of class 1."""

    def __init__(self, name: str = "f1", average: str = "macro", **kwargs: Any) -> None:
        super().__init__(name, average, **kwargs)
        self._counts_all = True

    def score(self, table: numpy.ndarray) -> float:
        """Return the metric of a table."""
        hits, wrong = table[1, 1], table[0, 1] + table[1, 0]
        return float(2 * hits / (2 * hits + wrong)) if hits else 0.0


@register
class MCC(_Binary):
    """Matthews' correlation coefficient."""

    def __init__(self, name: str = "mcc", average: str = "macro", **kwargs: Any) -> None:
        super().__init__(name, average, **kwargs)
        self._counts_all = True

    def score(self, table: numpy.ndarray) -> float:
        """Return the metric of a table; sums that are zero count as one."""
        sums = [*table.sum(0), *table.sum(1)]
        below = math.prod(total for total in sums if total)
        return float((table[1, 1] * table[0, 0] - table[0, 1] * table[1, 0]) / math.sqrt(below))


@register
class Perplexity(EvalMetric):
    """e to the mean of minus the logarithms of the labels' probabilities.

    Args:
        ignore_label: A label that does not count; None for none.
        axis: Where the classes are.
        name: What it is called.
        kwargs: As for ``EvalMetric``.
    """

    def __init__(
        self, ignore_label: int | None = None, axis: int = -1, name: str = "perplexity", **kwargs: Any
    ) -> None:
        self.ignore_label, self.axis = ignore_label, axis
        super().__init__(name, **kwargs)
        self._counts_all = True

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch."""
        for label, pred in zip(*as_lists(labels, preds), strict=True):
            self.add(*self.measure(to_numpy(label), to_numpy(pred)))

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the sum of minus logarithms, and how many count."""
        rows = numpy.moveaxis(pred, self.axis, -1).reshape(-1, pred.shape[self.axis])
        wanted = label.astype(numpy.int32).ravel()
        check_label_shapes(wanted, rows)
        chosen = numpy.clip(wanted, 0, rows.shape[1] - 1)
        logs = -numpy.log(numpy.maximum(rows[numpy.arange(len(rows)), chosen], LEAST_PERPLEXITY))
        counts = numpy.ones(len(rows), bool) if self.ignore_label is None else wanted != self.ignore_label
        return logs[counts].sum(), counts.sum()

    def value(self, total: float, count: float) -> float:
        """Return the metric of a sum and a count."""
        return math.exp(total / count)


@alias("ce")
@register
class CrossEntropy(EvalMetric):
    """The mean of minus the logarithms of the labels' probabilities."""

    def __init__(self, eps: float = LEAST, name: str = "cross-entropy", **kwargs: Any) -> None:
        self.eps = eps
        super().__init__(name, **kwargs)

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return the sum of minus logarithms, and the rows."""
        wanted = label.ravel().astype(numpy.int64)
        check_label_shapes(wanted, pred)
        return -numpy.log(pred[numpy.arange(len(wanted)), wanted] + self.eps).sum(), len(wanted)


@alias("nll_loss")
@register
class NegativeLogLikelihood(CrossEntropy):
    """The same under another name."""

    def __init__(self, eps: float = LEAST, name: str = "nll-loss", **kwargs: Any) -> None:
        super().__init__(eps, name, **kwargs)


@register
class PCC(EvalMetric):
    """The correlation of classes, from the table of labels and predictions; of MCC for any number of them."""

    def __init__(self, name: str = "pcc", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._counts_all = True

    def reset(self) -> None:
        """Forget everything."""
        self._all = numpy.zeros((2, 2))
        super().reset()

    def reset_local(self) -> None:
        """Forget what counts since the last ``reset_local``."""
        self._local = numpy.zeros((2, 2))
        super().reset_local()

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch."""
        for label, pred in zip(*as_lists(labels, preds), strict=True):
            wanted, predicted = to_numpy(label).astype(numpy.int32), to_numpy(pred)
            predicted = (
                (predicted.argmax(1) if predicted.shape != wanted.shape else predicted)
                .astype(numpy.int32)
                .ravel()
            )
            size = int(max(predicted.max(), wanted.max())) + 1
            self._local, self._all = _grown(self._local, size), _grown(self._all, size)
            for table in (self._local, self._all):
                numpy.add.at(table, (predicted, wanted.ravel()), 1)
        self.num_inst += 1
        self.global_num_inst += 1
        self.sum_metric = _correlation(self._local) * self.num_inst
        self.global_sum_metric = _correlation(self._all) * self.global_num_inst


def _grown(table: numpy.ndarray, size: int) -> numpy.ndarray:
    more = max(0, size - len(table))
    return numpy.pad(table, ((0, more), (0, more)))


def _correlation(table: numpy.ndarray) -> float:
    count, rows, columns = table.sum(), table.sum(1), table.sum(0)
    own = (rows * (count - rows)).sum() * (columns * (count - columns)).sum()
    if not own:
        return math.nan
    return float((table.diagonal() * count - rows * columns).sum() / math.sqrt(own))
