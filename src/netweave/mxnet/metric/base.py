"""``mx.metric``: numbers that are followed over the batches of an epoch.

They add up over batches, in NumPy. A metric is the quotient of a sum and a count; both are kept twice, since
the last ``reset_local`` (which ``Speedometer`` calls) and since the last ``reset`` (for the epoch).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, TypeVar

import numpy

from netweave.errors import UsageError
from netweave.mxnet.ndarray.array import NDArray

M = TypeVar("M", bound=type["EvalMetric"])
REGISTRY: dict[str, type[EvalMetric]] = {}
"""The metrics by name, in small letters."""


def register(klass: M) -> M:
    """Make a metric known by its name in small letters."""
    REGISTRY[klass.__name__.lower()] = klass
    return klass


def alias(*names: str) -> Callable[[M], M]:
    """Make a metric known by further names."""

    def enter(klass: M) -> M:
        REGISTRY.update(dict.fromkeys((name.lower() for name in names), klass))
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
        if metric.lower() not in REGISTRY:
            raise UsageError(f"unknown metric {metric!r}; expected one of {', '.join(sorted(REGISTRY))}")
        return REGISTRY[metric.lower()](*args, **kwargs)
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

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON values: all attributes that are numbers or arrays."""
        kept = {key: value for key, value in vars(self).items() if isinstance(value, Real | numpy.ndarray)}
        return {key: numpy.asarray(value).tolist() for key, value in kept.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        for key, value in state.items():
            is_array = isinstance(getattr(self, key, None), numpy.ndarray)
            setattr(self, key, numpy.array(value) if is_array else value)

    def measure(self, label: numpy.ndarray, pred: numpy.ndarray) -> tuple[float, float]:
        """Return sum and count of one label and its prediction."""
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        """Take in a batch: lists of arrays, or one array each.

        Raises:
            UsageError: There are not as many labels as predictions, or their sizes do not fit.
        """
        labels, preds = as_lists(labels, preds)
        if len(labels) != len(preds):
            raise UsageError(
                f"{self.name}: {len(labels)} labels and {len(preds)} predictions, expected as many"
            )
        for label, pred in zip(labels, preds, strict=True):
            self.add(*self.measure(to_numpy(label), to_numpy(pred)))

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

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint of a fit keeps, as JSON values."""
        return {"metrics": [one.state() for one in self.metrics]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where ``state`` was called."""
        for one, kept in zip(self.metrics, state["metrics"], strict=True):
            one.restore(kept)

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
        labels, preds = as_lists(labels, preds)
        if not self._allow_extra_outputs:
            check_label_shapes(labels, preds)
        for label, pred in zip(labels, preds, strict=False):
            value = self._feval(to_numpy(label), to_numpy(pred))
            self.add(*(value if isinstance(value, tuple) else (value, 1)))


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


def as_lists(labels: Any, preds: Any) -> tuple[list[Any], list[Any]]:
    """Return labels and predictions as lists."""
    lists = [list(one) if isinstance(one, list | tuple) else [one] for one in (labels, preds)]
    return lists[0], lists[1]


def to_numpy(array: Any) -> numpy.ndarray:
    """Return an array as one of NumPy's."""
    return array.asnumpy() if isinstance(array, NDArray) else numpy.asarray(array)


def _pairs(found: tuple[Any, Any]) -> list[tuple[str, float]]:
    names, values = (one if isinstance(one, list) else [one] for one in found)
    return list(zip(names, values, strict=True))


def _joined(found: Sequence[tuple[Any, Any]]) -> tuple[list[str], list[float]]:
    pairs = [pair for one in found for pair in _pairs(one)]
    return [name for name, _ in pairs], [value for _, value in pairs]
