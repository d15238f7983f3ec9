"""Tensors that do not depend on a net's inputs, whose agreement proves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.metric import BLOCK, OUTPUT_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import onnx_ir as ir

    from netweave.comparison.signals import Signals
    from netweave.comparison.values import SignalValues

LEAST_VARIATION = 10 * OUTPUT_TOLERANCE
"""A tensor that varies by less than this, relative to its rms, agrees with almost any (decision 0128)."""

BOUNDS = {
    "Sigmoid": (0.0, 1.0),
    "HardSigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
    "Softsign": (-1.0, 1.0),
    "Erf": (-1.0, 1.0),
}
"""Where the operators saturate."""

SATURATED = 1e-4
"""An element nearer than this to a bound of its operator is saturated, and proves nothing (decision 0128)."""


class Variation:
    """Tells the informative signals of a net.

    Args:
        signals: The net.
        runs: Its tensors by signal, of one run or several on other inputs.
    """

    def __init__(self, signals: Signals, runs: Sequence[SignalValues | Mapping[str, np.ndarray]]) -> None:
        self._signals = signals
        self._runs = runs
        self._flaws: dict[str, str] = {}

    def flaw(self, name: str) -> str:
        """Return why agreement on a signal proves nothing: ``constant``, ...; empty if it does."""
        if name not in self._flaws:
            self._flaws[name] = self._find_flaw(name)
        return self._flaws[name]

    def _find_flaw(self, name: str) -> str:
        tensors = [run[name] for run in self._runs if name in run]
        if not tensors or tensors[0].dtype.kind not in "fiub":
            return ""
        if not tensors[0].size:
            return "empty"
        if tensors[0].dtype.kind != "f":
            first = tensors[0].flat[0]
            return "constant" if all((x == first).all() for x in tensors) else ""
        samples = [row.reshape(-1) for x in tensors for row in (x if x.ndim > 1 else x[None])]
        finite = [row for row in samples if np.isfinite(row).all()]
        if not finite:
            return "not finite"
        if all(_is_saturated(row, self._signals.producer.get(name)) for row in finite):
            return "saturated"
        return "" if _varies(finite) else "constant"


def _is_saturated(row: np.ndarray, producer: ir.Node | None) -> bool:
    """Return whether all elements of a sample are at a bound of the operator that makes them."""
    bounds = BOUNDS.get(producer.op_type) if producer is not None else None
    if bounds is None:
        return False
    distance = np.minimum(np.abs(row - bounds[0]), np.abs(row - bounds[1]))
    return bool(distance.max() < SATURATED)


def _varies(rows: Sequence[np.ndarray]) -> bool:
    """Return whether samples differ from one another; where there is one only, whether its elements do."""
    if len(rows) > 1 and len({row.size for row in rows}) == 1:
        return any(_is_apart(rows[0], row) for row in rows[1:])
    return any(_is_apart(row, np.full_like(row, row.mean(dtype=np.float64))) for row in rows)


def _is_apart(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two samples differ by more than the least variation, relative to the size of both."""
    distance = size = 0.0
    with np.errstate(all="ignore"):
        for start in range(0, a.size, BLOCK):
            x, y = (row[start : start + BLOCK].astype(np.float64) for row in (a, b))
            size += float(np.dot(x, x) + np.dot(y, y)) / 2
            x -= y
            distance += float(np.dot(x, x))
        return bool(np.sqrt(distance) > LEAST_VARIATION * np.sqrt(size))
