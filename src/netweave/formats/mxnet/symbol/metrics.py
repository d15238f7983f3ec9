"""Metrics beside a training, as symbols: one number of a prediction and its label.

They are those of MXNet (python/mxnet/metric.py at 1.9.1) over one batch. To add one: a function under
``@metric("name", ...)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from netweave.errors import UsageError
from netweave.formats.mxnet.symbol.symbol import Symbol, operator_function

if TYPE_CHECKING:
    from collections.abc import Callable

METRICS: dict[str, Callable[[Symbol, Symbol], Symbol]] = {}
"""The metrics by name: ``(prediction, label) -> one number``."""

F = TypeVar("F", bound="Callable[[Symbol, Symbol], Symbol]")

LEAST_PROBABILITY = 1e-12
"""Added to a probability before its logarithm, as in MXNet."""


def metric(*names: str) -> Callable[[F], F]:
    """Enter a metric in the table, under its name and its other names."""

    def enter(function: F) -> F:
        METRICS.update(dict.fromkeys(names, function))
        return function

    return enter


def find_metric(name: str) -> Callable[[Symbol, Symbol], Symbol]:
    """Return a metric.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in METRICS:
        raise UsageError(f"unknown metric {name!r}; expected one of {', '.join(sorted(METRICS))}")
    return METRICS[name]


def call(op: str, *inputs: Symbol, **settings: Any) -> Symbol:
    """Apply an operator."""
    return operator_function(op)(*inputs, **settings)


@metric("accuracy", "acc")
def accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of rows whose largest element is at the label's place."""
    flat = call("Reshape", label, shape=(-1,))
    return call("mean", call("_equal", call("argmax", prediction, axis=1).reshape(shape=(-1,)), flat))


@metric("top_5_accuracy", "top5")
def top_5_accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of rows whose label is among the five largest elements."""
    best = call("topk", prediction, k=5, axis=1)
    hit = call("broadcast_equal", best, call("Reshape", label, shape=(-1, 1)))
    return call("mean", call("sum", hit, axis=1))


@metric("cross-entropy", "ce", "crossentropy")
def cross_entropy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of minus the logarithms of the labels' probabilities."""
    chosen = call("pick", prediction, call("Reshape", label, shape=(-1,)))
    return call("mean", -call("log", chosen + LEAST_PROBABILITY))


@metric("mse", "mean_squared_error")
def mean_squared_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the squared differences."""
    return call("mean", call("square", _difference(prediction, label)))


@metric("rmse")
def root_mean_squared_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the root of the mean of the squared differences."""
    return call("sqrt", mean_squared_error(prediction, label))


@metric("mae", "mean_absolute_error")
def mean_absolute_error(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the absolute differences."""
    return call("mean", call("abs", _difference(prediction, label)))


@metric("binary_accuracy")
def binary_accuracy(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the share of elements on the label's side of a half."""
    return call("mean", call("_equal", prediction > 0.5, call("reshape_like", label, prediction) > 0.5))


@metric("loss")
def value(prediction: Symbol, label: Symbol) -> Symbol:
    """Return the mean of the output itself, which is a loss."""
    return call("mean", prediction)


def _difference(prediction: Symbol, label: Symbol) -> Symbol:
    return prediction - call("reshape_like", label, prediction)
