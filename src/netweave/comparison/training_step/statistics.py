"""Moving statistics of two nets after a forward pass in training mode."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from netweave.comparison.result.comparison import Finding
from netweave.comparison.training_step.pairing import pair_buffers
from netweave.comparison.training_step.record import TrainingRecord
from netweave.graph.summary import list_names

TOLERANCES = {True: 1e-7, False: 2e-4}
"""Largest difference that counts as rounding, relative to the largest move; by whether both are in double
precision."""

ROUNDING = 1e-5
"""Least tolerance of what is computed from a difference of two statistics."""


@dataclass(frozen=True, slots=True)
class Cause:
    """A way in which a moving statistic of B moves otherwise.

    Attributes:
        mismatch: Key of the cause.
        text: What differs, without the names of the statistics.
        fix: What to change in B; empty if unknown.
    """

    mismatch: str
    text: str
    fix: str = ""


def compare_statistics(a: TrainingRecord, b: TrainingRecord) -> list[Finding]:
    """Return how moving statistics move otherwise in B: one finding for each cause, with all its layers."""
    layers: dict[Cause, list[tuple[str, str]]] = defaultdict(list)
    for name_a, name_b in pair_buffers(a.buffers, b.buffers, a.updated_buffers, b.updated_buffers):
        moves = [
            _Move(record.buffers[name], record.updated_buffers[name], record.momenta.get(name))
            for record, name in ((a, name_a), (b, name_b))
        ]
        cause = _cause(*moves, tolerance=TOLERANCES[a.is_double and b.is_double])
        if cause is not None:
            layers[cause].append((name_a, name_b))
    return [
        Finding(
            cause.mismatch,
            f"{cause.text} (moving statistics {list_names(name for _, name in names)})",
            fix=cause.fix,
            layer_a=names[0][0],
            layer_b=names[0][1],
            error=1.0,
        )
        for cause, names in layers.items()
    ]


@dataclass(slots=True)
class _Move:
    before: np.ndarray
    after: np.ndarray
    momentum: float | None

    @property
    def way(self) -> np.ndarray:
        return np.asarray(self.after.astype(np.float64) - self.before)

    def value(self, momentum: float) -> np.ndarray:
        """Return the batch's own value, of which the statistic takes a share."""
        return np.asarray(self.before + self.way / momentum)


def _cause(a: _Move, b: _Move, *, tolerance: float) -> Cause | None:
    scale = max(float(np.abs(a.way).max(initial=0.0)), float(np.abs(b.way).max(initial=0.0)))
    if float(np.abs(a.way - b.way).max(initial=0.0)) <= tolerance * scale:
        return None
    if not b.way.any() or not a.way.any():
        side, other = ("B", "A") if not b.way.any() else ("A", "B")
        text = f"{side} normalises with stored statistics in training, {other} with those of the batch"
        return Cause("statistics-fixed", text, "train()" if side == "B" else "")
    factor = _factor(a.way, b.way, max(tolerance, ROUNDING))
    if factor is not None and a.momentum is not None:
        stated = b.momentum if b.momentum is not None else factor * a.momentum
        if stated != a.momentum:
            return _momentum(a.momentum, stated)
    if a.momentum is not None and b.momentum is not None:
        if a.momentum != b.momentum:
            return _momentum(a.momentum, b.momentum)
        number = _samples(a.value(a.momentum), b.value(b.momentum), max(tolerance, ROUNDING))
        if number is not None:
            n, less = str(abs(number)), str(abs(number) - 1)
            divisors = (n, less) if number > 0 else (less, n)
            return Cause(
                "statistics-variance",
                "the moving variance takes sums of squares divided by "
                f"{divisors[0]} in A, by {divisors[1]} in B",
                f"multiply the variance by {divisors[1]}/{divisors[0]}",
            )
    return Cause("statistics", "moving statistics differ after a forward pass")


def _momentum(a: float, b: float) -> Cause:
    text = f"the batch's share of moving statistics is {a:g} in A, {b:.4g} in B"
    return Cause("statistics-momentum", text, f"momentum={a:g}")


def _factor(a: np.ndarray, b: np.ndarray, tolerance: float) -> float | None:
    """Return what B is of A, if it is one number."""
    factor = float((a * b).sum() / max(float((a * a).sum()), 1e-300))
    apart = float(np.abs(factor * a - b).max())
    return factor if apart <= tolerance * float(np.abs(b).max()) else None


def _samples(a: np.ndarray, b: np.ndarray, tolerance: float) -> int | None:
    """Return the n of variances that are divided by n in one net and by n - 1 in the other.

    It is negative where A divides by n - 1; None if that is not the difference.
    """
    factor = _factor(a, b, tolerance)
    if factor is None or factor in {0.0, 1.0}:
        return None
    number = 1 / (1 - min(factor, 1 / factor))
    if round(number) < 2 or abs(number - round(number)) > 1e-2 * number:
        return None
    return round(number) if factor > 1 else -round(number)
