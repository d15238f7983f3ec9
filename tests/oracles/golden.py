"""Golden files: how a tensor is described in them, and how another tensor is held against that."""

from __future__ import annotations

import json
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from pathlib import Path

TOLERANCE = 1e-4
"""Largest difference that two right programs show, relative to the tensor's root mean square."""


LIMIT = 1e30
"""A larger value stands for infinity: Caffe and MXNet fill empty windows with the lowest float."""


def picked(array: np.ndarray, count: int) -> np.ndarray:
    """Return ``count`` evenly spaced elements in C order, or all if there are fewer."""
    flat = np.clip(np.asarray(array, dtype=np.float64).ravel(), -LIMIT, LIMIT)
    if flat.size <= count:
        return flat
    return flat[np.arange(count) * flat.size // count]


def describe(array: np.ndarray, count: int) -> dict[str, Any]:
    """Return a tensor's shape, root mean square, mean and ``count`` elements as JSON values.

    Values that stand for infinity count neither in the root mean square nor in the mean.
    """
    finite = np.asarray(array, dtype=np.float64).ravel()
    finite = finite[~(np.abs(finite) >= LIMIT)]
    return {
        "shape": list(array.shape),
        "rms": _short(np.sqrt(np.mean(finite**2)) if finite.size else 0.0),
        "mean": _short(finite.mean() if finite.size else 0.0),
        "values": [_short(value) for value in picked(array, count)],
    }


def difference(array: np.ndarray, described: dict[str, Any]) -> float:
    """Return the largest difference from a described tensor, relative to its root mean square.

    A tensor of another shape, or one with a value that is not finite where the description's is, is
    infinitely far away.
    """
    if list(array.shape) != described["shape"]:
        return float("inf")
    found = describe(array, len(described["values"]))
    pairs = [(found["rms"], described["rms"]), (found["mean"], described["mean"])]
    pairs += list(zip(found["values"], described["values"], strict=True))
    scale = described["rms"] or 1.0
    worst = max(abs(ours - theirs) / scale for ours, theirs in pairs)
    return worst if np.isfinite(worst) else float("inf")


def size(described: dict[str, Any]) -> int:
    """Return the number of elements of a described tensor."""
    return prod(described["shape"])


def write_json(path: Path, content: Any) -> None:
    """Write JSON with one short record per line, so that a change shows as the lines that changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_lines(content) + "\n")


def _short(value: float) -> float:
    """Keep 7 digits: more than the tolerance can see."""
    return float(f"{value:.6e}")


def _lines(content: Any, indent: int = 0) -> str:
    compact = json.dumps(content)
    if len(compact) + indent <= 100 or not _has_records(content):
        return compact
    pad = " " * (indent + 1)
    if isinstance(content, dict):
        items = [f"{json.dumps(key)}: {_lines(value, indent + 1)}" for key, value in content.items()]
        return "{\n" + ",\n".join(pad + item for item in items) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + _lines(item, indent + 1) for item in content) + "\n" + " " * indent + "]"


def _has_records(content: Any) -> bool:
    inner = content.values() if isinstance(content, dict) else content
    return isinstance(content, (dict, list)) and any(isinstance(item, (dict, list, str)) for item in inner)
