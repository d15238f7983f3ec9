"""``mx.metric``: numbers that are followed over the batches of an epoch.

They add up over batches, in NumPy; the metrics of ``netweave.symbol`` are of one batch and are computed with
the net. A metric is the quotient of a sum and a count; both are kept twice, since the last ``reset_local``
(which ``Speedometer`` calls) and since the last ``reset`` (for the epoch).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy

from netweave.errors import UsageError
from netweave.mxnet.ndarray.array import NDArray

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LEAST = 1e-12
"""Added to a probability before its logarithm."""

LEAST_PERPLEXITY = 1e-10
"""The smallest probability that counts for a perplexity."""

M = TypeVar("M", bound=type["EvalMetric"])
_REGISTRY: dict[str, type[EvalMetric]] = {}


def register(klass: M) -> M:
    """Make a metric known by its name in small letters."""
    _REGISTRY[klass.__name__.lower()] = klass
    return klass


def alias(*names: str) -> Callable[[M], M]:
    """Make a metric known by further names."""

    def enter(klass: M) -> M:
        _REGISTRY.update(dict.fromkeys((name.lower() for name in names), klass))
        return klass

    return enter


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Return labels and predictions once there are as many of both.

    Raises:
        UsageError: There are not.
    """
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if sizes[0] != sizes[1]:
        raise UsageError(f"labels have {sizes[0]} and predictions {sizes[1]}, expected the same")
    if wrap:
        labels = [labels] if isinstance(labels, NDArray) else labels
        preds = [preds] if isinstance(preds, NDArray) else preds
    return labels, preds


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """Return a metric from a name, a metric, a function of label and prediction, or a list of these.

    Raises:
        UsageError: There is none of that name.
    """
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, str):
        if metric.lower() not in _REGISTRY:
            raise UsageError(f"unknown metric {metric!r}; expected one of {', '.join(sorted(_REGISTRY))}")
        return _REGISTRY[metric.lower()](*args, **kwargs)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list | tuple):
        return CompositeEvalMetric([create(one, *args, **kwargs) for one in metric])
    raise UsageError(f"a metric is {metric!r:.60}, expected a name, a function, a metric, or a list of these")


class EvalMetric:
    """A metric; a subclass has ``update``, which adds to ``sum_metric`` and ``num_inst``, or ``measure``.

    Args:
        name: What it is called in messages.
        output_names: Names of the outputs that it looks at; None for all.
        label_names: Names of the labels; None for all.
        kwargs: Settings, as ``get_config`` returns them.
    """

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self.output_names, self.label_names = output_names, label_names
        self._kwargs = {key: value for key, value in kwargs.items() if key != "has_global_stats"}
        self.global_sum_metric: float = 0.0
        self.global_num_inst: float = 0
        self._counts_all = type(self).update is EvalMetric.update
        self.reset()

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"

    def get_config(self) -> dict[str, Any]:
        """Return what ``create`` makes the metric from."""
        return {
            **self._kwargs,
            "metric": type(self).__name__,
            "name": self.name,
            "output_names": self.output_names,
            "label_names": self.label_names,
        }

    def reset(self) -> None:
        """Forget everything."""
        self.reset_local()
        self.global_sum_metric, self.global_num_inst = 0.0, 0

    def reset_local(self) -> None:
        """Forget what counts since the last ``reset_local``."""
        self.sum_metric: float = 0.0
        self.num_inst: float = 0

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return sum and count of one label and its prediction."""
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch: lists of arrays, or one array each.

        Raises:
            UsageError: There are not as many labels as predictions, or their sizes do not fit.
        """
        labels, preds = _as_lists(labels, preds)
        if len(labels) != len(preds):
            raise UsageError(
                f"{self.name}: {len(labels)} labels and {len(preds)} predictions, expected as many"
            )
        for label, pred in zip(labels, preds, strict=True):
            self.add(*self.measure(_numpy(label), _numpy(pred)))

    def add(self, total: float, count: float) -> None:
        """Add to sum and count."""
        self.sum_metric += float(total)
        self.num_inst += float(count)
        self.global_sum_metric += float(total)
        self.global_num_inst += float(count)

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """Take in a batch by names."""
        labels = (
            list(label.values()) if self.label_names is None else [label[key] for key in self.label_names]
        )
        preds = list(pred.values()) if self.output_names is None else [pred[key] for key in self.output_names]
        self.update(labels, preds)

    def value(self, total: float, count: float) -> float:
        """Return the metric of a sum and a count."""
        return total / count

    def get(self) -> tuple[Any, Any]:
        """Return name and value since the last ``reset_local``; NaN where there is nothing."""
        if not self.num_inst:
            return self.name, math.nan
        return self.name, self.value(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """Return name and value since the last ``reset``."""
        if not self._counts_all:
            return self.get()
        if not self.global_num_inst:
            return self.name, math.nan
        return self.name, self.value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """Return pairs of name and value since the last ``reset``."""
        return _pairs(self.get_global())


@alias("composite")
@register
class CompositeEvalMetric(EvalMetric):
    """Several metrics.

    Args:
        metrics: The metrics, or their names.
        name: What it is called.
        kwargs: As for ``EvalMetric``.
    """

    def __init__(self, metrics: Any = None, name: str = "composite", **kwargs: Any) -> None:
        given = metrics if isinstance(metrics, list | tuple) else [] if metrics is None else [metrics]
        self.metrics = [create(one) for one in given]
        super().__init__(name, **kwargs)

    def add(self, metric: Any, count: Any = None) -> None:
        """Add a metric."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """Return a metric by number."""
        return self.metrics[index]

    def reset(self) -> None:
        """Forget everything."""
        for one in self.metrics:
            one.reset()

    def reset_local(self) -> None:
        """Forget what counts since the last ``reset_local``."""
        for one in self.metrics:
            one.reset_local()

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch."""
        for one in self.metrics:
            one.update(labels, preds)

    def update_dict(self, label: Mapping[str, Any], pred: Mapping[str, Any]) -> None:
        """Take in a batch by names."""
        for one in self.metrics:
            one.update_dict(label, pred)

    def get(self) -> tuple[Any, Any]:
        """Return lists of names and values."""
        return _joined([one.get() for one in self.metrics])

    def get_global(self) -> tuple[Any, Any]:
        """Return lists of names and values since the last ``reset``."""
        return _joined([one.get_global() for one in self.metrics])


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
        found, wanted = pred.astype(numpy.int32).ravel(), label.astype(numpy.int32).ravel()
        check_label_shapes(wanted, found)
        return (found == wanted).sum(), found.size


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
        for label, pred in zip(*_as_lists(labels, preds), strict=True):
            wanted, found = _numpy(label).astype(numpy.int32).ravel(), _numpy(pred).argmax(1).ravel()
            if numpy.unique(wanted).size > 2:
                raise UsageError(f"{self.name} is for two classes; the labels are {numpy.unique(wanted)}")
            numpy.add.at(batch, ((wanted == 1).astype(int), (found == 1).astype(int)), 1)
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
        for label, pred in zip(*_as_lists(labels, preds), strict=True):
            self.add(*self.measure(_numpy(label), _numpy(pred)))

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
        for label, pred in zip(*_as_lists(labels, preds), strict=True):
            wanted, found = _numpy(label).astype(numpy.int32), _numpy(pred)
            found = (found.argmax(1) if found.shape != wanted.shape else found).astype(numpy.int32).ravel()
            size = int(max(found.max(), wanted.max())) + 1
            self._local, self._all = _grown(self._local, size), _grown(self._all, size)
            for table in (self._local, self._all):
                numpy.add.at(table, (found, wanted.ravel()), 1)
        self.num_inst += 1
        self.global_num_inst += 1
        self.sum_metric = _correlation(self._local) * self.num_inst
        self.global_sum_metric = _correlation(self._all) * self.global_num_inst


@register
class Loss(EvalMetric):
    """The mean of the outputs themselves, which are losses."""

    def __init__(self, name: str = "loss", **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._counts_all = True

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch; there may be no labels."""
        for pred in preds if isinstance(preds, list | tuple) else [preds]:
            self.add(_numpy(pred).sum(), pred.size)


@register
class CustomMetric(EvalMetric):
    """A function of label and prediction to a number, or to a sum and a count.

    Args:
        feval: The function, on arrays of NumPy's.
        name: What it is called; the function's name by default.
        allow_extra_outputs: Whether there may be more predictions than labels.
        kwargs: As for ``EvalMetric``.
    """

    def __init__(
        self,
        feval: Callable[[numpy.ndarray, numpy.ndarray], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        **kwargs: Any,
    ) -> None:
        own = str(name or getattr(feval, "__name__", "custom"))
        super().__init__(f"custom({own})" if "<" in own else own, **kwargs)
        self._feval, self._allow_extra_outputs = feval, allow_extra_outputs
        self._counts_all = True

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch."""
        labels, preds = _as_lists(labels, preds)
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for label, pred in zip(labels, preds, strict=False):
            found = self._feval(_numpy(label), _numpy(pred))
            self.add(*(found if isinstance(found, tuple) else (found, 1)))


def np(
    numpy_feval: Callable[[numpy.ndarray, numpy.ndarray], Any],
    name: str | None = None,
    allow_extra_outputs: bool = False,
) -> CustomMetric:
    """Return the metric of a function on arrays of NumPy's; ``mx.metric.np``."""

    def feval(label: numpy.ndarray, pred: numpy.ndarray) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__
    return CustomMetric(feval, name, allow_extra_outputs)


def __getattr__(name: str) -> Any:
    from netweave.mxnet.base import missing

    raise missing("mx.metric", name, [klass.__name__ for klass in _REGISTRY.values()])


def _as_lists(labels: Any, preds: Any) -> tuple[list[Any], list[Any]]:
    found = [list(one) if isinstance(one, list | tuple) else [one] for one in (labels, preds)]
    return found[0], found[1]


def _numpy(array: Any) -> numpy.ndarray:
    return array.asnumpy() if isinstance(array, NDArray) else numpy.asarray(array)


def _pairs(found: tuple[Any, Any]) -> list[tuple[str, float]]:
    names, values = (one if isinstance(one, list) else [one] for one in found)
    return list(zip(names, values, strict=True))


def _joined(found: Sequence[tuple[Any, Any]]) -> tuple[list[str], list[float]]:
    pairs = [pair for one in found for pair in _pairs(one)]
    return [name for name, _ in pairs], [value for _, value in pairs]


def _grown(table: numpy.ndarray, size: int) -> numpy.ndarray:
    more = max(0, size - len(table))
    return numpy.pad(table, ((0, more), (0, more)))


def _correlation(table: numpy.ndarray) -> float:
    count, rows, columns = table.sum(), table.sum(1), table.sum(0)
    own = (rows * (count - rows)).sum() * (columns * (count - columns)).sum()
    if not own:
        return math.nan
    return float((table.diagonal() * count - rows * columns).sum() / math.sqrt(own))
