"""The base of metrics: numbers that are taken in batch by batch, and a result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras.losses.functions import as_values, same_rank
from netweave.keras.objects import Configured, Family
from netweave.keras.operation import unique_name

METRICS: Family[Any] = Family("metric", "keras.metrics")


class Metric(Configured):
    """Sums over batches, in float64 arrays by name, and what follows from them.

    A metric of a user's own calls ``add_weight`` in ``__init__`` and has ``update_state`` and ``result``.

    Args:
        name: Its name; None for one after its class.
        dtype: Type of the numbers in Keras; of no effect here.

    Attributes:
        values: The sums.
    """

    def __init__(self, name: str | None = None, dtype: str | None = None) -> None:
        self.name = name or unique_name(type(self).__name__)
        self.values: dict[str, np.ndarray] = {}

    def add_weight(self, shape: tuple[int, ...] = (), initializer: str = "zeros", name: str = "") -> str:
        """Add an array of sums, which begins with zeros; return its name."""
        key = name or f"value_{len(self.values)}"
        self.values[key] = np.zeros(shape)
        return key

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        """Take a batch in."""
        raise NotImplementedError

    def result(self) -> float | np.ndarray:
        """Return the metric of all batches since the last reset."""
        raise NotImplementedError

    def reset_state(self) -> None:
        """Forget all batches."""
        for value in self.values.values():
            value[...] = 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> float | np.ndarray:
        """Take a batch in, and return the metric of all batches."""
        self.update_state(*args, **kwargs)
        return self.result()

    def get_config(self) -> dict[str, Any]:
        """Return the settings, JSON values."""
        return {key: value for key, value in super().get_config().items() if key != "dtype"}

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON values."""
        return {key: value.tolist() for key, value in self.values.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was called."""
        for key, value in state.items():
            self.values[key] = np.asarray(value, np.float64)


@METRICS.register()
class Sum(Metric):
    """The sum of values."""

    def __init__(self, name: str | None = "sum", dtype: str | None = None) -> None:
        super().__init__(name, dtype)
        self.add_weight(name="total")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]  # Keras' metrics take other arguments than their base, too
        """Take values in."""
        array, weights = _weighted(values, sample_weight)
        self.values["total"] += np.sum(array * weights)

    def result(self) -> float | np.ndarray:
        """Return the sum."""
        return float(self.values["total"])


@METRICS.register()
class Mean(Metric):
    """The mean of values."""

    def __init__(self, name: str | None = "mean", dtype: str | None = None) -> None:
        super().__init__(name, dtype)
        self.add_weight(name="total")
        self.add_weight(name="count")

    def update_state(self, values: Any, sample_weight: Any = None) -> None:  # type: ignore[override]  # Keras' metrics take other arguments than their base, too
        """Take values in."""
        array, weights = _weighted(values, sample_weight)
        self.values["total"] += np.sum(array * weights)
        self.values["count"] += np.sum(np.broadcast_to(weights, array.shape))

    def result(self) -> float | np.ndarray:
        """Return the mean; 0 before anything was taken in."""
        return float(self.values["total"] / self.values["count"]) if self.values["count"] else 0.0


def _weighted(values: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray]:
    array = np.asarray(values, np.float64)
    if sample_weight is None:
        return array, np.ones(())
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim < array.ndim:
        # Keras: values of more axes than their weights are first reduced to the mean over the others
        array, weights = same_rank(array, weights)
        if weights.ndim < array.ndim:
            array = array.mean(axis=tuple(range(weights.ndim, array.ndim)))
    elif weights.ndim > array.ndim:
        array, weights = same_rank(array, weights)
    return array, weights


@METRICS.register()
class MeanMetricWrapper(Mean):
    """The mean of a function of labels and predictions."""

    def __init__(
        self, fn: Callable[..., Any], name: str | None = None, dtype: str | None = None, **settings: Any
    ) -> None:
        super().__init__(name or getattr(fn, "__name__", None), dtype)
        self.fn, self.settings = fn, settings

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:  # type: ignore[override]  # Keras' metrics take other arguments than their base, too
        """Take a batch in."""
        values = self.fn(as_values(y_true), as_values(y_pred), **self.settings)
        super().update_state(values, sample_weight)

    def get_config(self) -> dict[str, Any]:
        """Return the settings; a function of a user's own is not among them.

        Raises:
            UsageError: The function is none of Keras'.
        """
        if METRICS.classes.get(getattr(self.fn, "__name__", "")) is not self.fn:
            raise UsageError(f"the metric {self.name!r} is a function of your own, which no file can hold")
        return {"name": self.name, **self.settings}
