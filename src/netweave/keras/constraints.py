"""Keras' constraints: what an array is brought back to after each update."""

from __future__ import annotations

from typing import Any

import numpy as np

from netweave.keras.objects import Configured, Family, missing
from netweave.keras.operation import EPSILON

CONSTRAINTS: Family[Any] = Family("constraint", "keras.constraints")

Axis = int | list[int] | tuple[int, ...]


class Constraint(Configured):
    """A set that an array has to stay in."""

    def __call__(self, w: np.ndarray) -> Any:
        """Return the array, brought back into the set."""
        raise NotImplementedError


def _norms(w: np.ndarray, axis: Axis) -> np.ndarray:
    axes = axis if isinstance(axis, int) else tuple(axis)
    norms: np.ndarray = np.sqrt(np.sum(np.square(w), axis=axes, keepdims=True))
    return norms


@CONSTRAINTS.register()
class MaxNorm(Constraint):
    """Norms along an axis of at most ``max_value``."""

    def __init__(self, max_value: float = 2, axis: Axis = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: np.ndarray) -> Any:
        """Return the array, brought back into the set."""
        norms = _norms(w, self.axis)
        return w * (np.clip(norms, 0, self.max_value) / (EPSILON + norms))


@CONSTRAINTS.register()
class NonNeg(Constraint):
    """No element below 0."""

    def __init__(self) -> None:
        pass

    def __call__(self, w: np.ndarray) -> Any:
        """Return the array, brought back into the set."""
        return np.maximum(w, 0)


@CONSTRAINTS.register()
class UnitNorm(Constraint):
    """Norms along an axis of 1."""

    def __init__(self, axis: Axis = 0) -> None:
        self.axis = axis

    def __call__(self, w: np.ndarray) -> Any:
        """Return the array, brought back into the set."""
        return w / (EPSILON + _norms(w, self.axis))


@CONSTRAINTS.register()
class MinMaxNorm(Constraint):
    """Norms along an axis between two numbers; ``rate`` is how far they are brought back at once."""

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Axis = 0
    ) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: np.ndarray) -> Any:
        """Return the array, brought back into the set."""
        norms = _norms(w, self.axis)
        clipped = np.clip(norms, self.min_value, self.max_value)
        return w * ((self.rate * clipped + (1 - self.rate) * norms) / (EPSILON + norms))


def get(identifier: Any) -> Any:
    """Return a constraint by its name or settings.

    Raises:
        UsageError: There is none of that name, or it has other settings.
    """
    return CONSTRAINTS.get(identifier)


def __getattr__(name: str) -> Any:
    raise missing("keras.constraints", name, globals())
