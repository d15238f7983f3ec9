"""Keras' regularizers: what is added to the loss for large arrays, or for large outputs of a layer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netweave.errors import UsageError
from netweave.keras import ops
from netweave.keras.objects import Configured, Family, missing

REGULARIZERS: Family[Any] = Family("regularizer", "keras.regularizers")


class Regularizer(Configured):
    """A penalty."""

    def __call__(self, x: Any) -> Any:
        """Return the penalty on an array."""
        raise NotImplementedError


def _factor(name: str, value: float | None, default: float) -> float:
    value = default if value is None else value
    if not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} is {value!r}, expected a number of at least 0")
    return float(value)


@REGULARIZERS.register()
class L1L2(Regularizer):
    """``l1 sum |x| + l2 sum x^2``."""

    def __init__(self, l1: float | None = 0.0, l2: float | None = 0.0) -> None:
        self.l1, self.l2 = _factor("l1", l1, 0.0), _factor("l2", l2, 0.0)

    def __call__(self, x: Any) -> Any:
        """Return the penalty on an array."""
        return self.l1 * ops.sum(ops.abs(x)) + self.l2 * ops.sum(ops.square(x))


@REGULARIZERS.register()
class L1(Regularizer):
    """``l1 sum |x|``."""

    def __init__(self, l1: float | None = 0.01) -> None:
        self.l1 = _factor("l1", l1, 0.01)

    def __call__(self, x: Any) -> Any:
        """Return the penalty on an array."""
        return self.l1 * ops.sum(ops.abs(x))


@REGULARIZERS.register()
class L2(Regularizer):
    """``l2 sum x^2``."""

    def __init__(self, l2: float | None = 0.01) -> None:
        self.l2 = _factor("l2", l2, 0.01)

    def __call__(self, x: Any) -> Any:
        """Return the penalty on an array."""
        return self.l2 * ops.sum(ops.square(x))


@REGULARIZERS.register()
class OrthogonalRegularizer(Regularizer):
    """The mean of the cosines between rows, or columns, of a matrix, times a factor."""

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        if mode not in {"rows", "columns"}:
            raise UsageError(f"mode is {mode!r}, expected rows or columns")
        self.factor, self.mode = _factor("factor", factor, 0.01), mode

    def __call__(self, x: Any) -> Any:
        """Return the penalty on a matrix."""
        if len(x.shape) != 2:
            raise UsageError(f"OrthogonalRegularizer is for matrices; an array is {tuple(x.shape)}")
        rows = ops.normalize(x if self.mode == "rows" else ops.transpose(x), axis=1)
        count = rows.shape[0]
        if count is None:
            raise UsageError(
                "OrthogonalRegularizer is for arrays; what a layer makes has no known number of rows"
            )
        others = 1.0 - np.eye(count, dtype=np.float32)
        cosines = ops.abs(ops.matmul(rows, ops.transpose(rows)) * others)
        return ops.sum(cosines) * (self.factor * 0.5 / (count * (count - 1.0) / 2.0))


def l1(l1: float = 0.01) -> L1:
    """Return ``L1``."""
    made: L1 = L1(l1)
    return made


def l2(l2: float = 0.01) -> L2:
    """Return ``L2``."""
    made: L2 = L2(l2)
    return made


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    """Return ``L1L2``; unlike the class it has both by default."""
    made: L1L2 = L1L2(l1, l2)
    return made


def get(identifier: Any) -> Any:
    """Return a regularizer by its name or settings.

    Raises:
        UsageError: There is none of that name, or it has other settings.
    """
    return REGULARIZERS.get(identifier)


def __getattr__(name: str) -> Any:
    raise missing("keras.regularizers", name, globals())
