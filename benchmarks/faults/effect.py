"""What a fault does to the outputs, by what the oracles answered."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def effect(before: Path, after: Path) -> float | None:
    """Return the largest change of an output by the oracle; None if it refuses a net."""
    if not (before / "outputs.npz").exists() or not (after / "outputs.npz").exists():
        return None
    with np.load(before / "outputs.npz") as x, np.load(after / "outputs.npz") as y:
        if len(x) != len(y):
            return float("inf")
        return max(change(x[name], y[name]) for name in x)


def change(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest change of a sample relative to its rms."""
    if a.shape != b.shape:
        return float("inf")
    a, b = (np.clip(x.reshape(len(x), -1).astype(np.float64), -1e30, 1e30) for x in (a, b))
    rms = np.sqrt((a**2).mean(axis=1))
    return float((np.abs(a - b).max(axis=1) / np.maximum(rms, 1e-30)).max())
