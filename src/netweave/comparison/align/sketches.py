"""Sketches of tensors: a few numbers that do not depend on layout, and the matching of tensors by them.

Two tensors that hold the same values in any order have the same sketch up to rounding. A match of sketches is
a proposal; ``values`` checks it element by element.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netweave.comparison.metric import BLOCK

if TYPE_CHECKING:
    from collections.abc import Iterable

SKETCH_TOLERANCE = 1e-3
"""Largest difference of two sketches of the same values.

It only proposes: a comparison of all elements decides, so too large a bound costs time alone (decision 0010).
"""


def sketch(x: np.ndarray) -> np.ndarray | None:
    """Return rms and, relative to it, mean, mean size, skew, greatest and least value of a tensor.

    None for a tensor that says too little to be told from others: constant, empty or not finite.
    """
    if x.dtype.kind != "f" or x.size < 2:
        return None
    flat = x.reshape(-1)
    sums = np.zeros(4)
    top, bottom = -np.inf, np.inf
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):  # in the cache; what is not finite stays so in the sums
            part = flat[start : start + BLOCK]
            top, bottom = max(top, float(part.max())), min(bottom, float(part.min()))
            square = part * part
            sums += [square.sum(), part.sum(), np.abs(part).sum(), np.dot(square, part)]
        rms = float(np.sqrt(sums[0] / flat.size))
        if top == bottom or rms == 0 or not np.isfinite(sums).all():
            return None
        mean, size, cubed = sums[1:] / flat.size / rms
    return np.array([rms, mean, size, cubed / rms**2, top / rms, bottom / rms])


@dataclass(slots=True)
class SketchIndex:
    """Sketches of one net's tensors, to be asked for those like a given one."""

    _rows: dict[int, list[tuple[float, str, np.ndarray]]] = field(default_factory=lambda: defaultdict(list))
    _keys: dict[int, list[float]] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Iterable[tuple[str, np.ndarray]]) -> SketchIndex:
        """Sketch tensors with their names; one after another, so that they need not be there together."""
        index = cls()
        for name, x in tensors:
            sketched = sketch(x)
            if sketched is not None:
                index._rows[x.size].append((float(sketched[0]), name, sketched))
        for size, rows in index._rows.items():
            rows.sort(key=lambda row: row[0])
            index._keys[size] = [row[0] for row in rows]
        return index

    def like(self, x: np.ndarray) -> list[str]:
        """Return the names of the tensors whose sketch is that of ``x``, nearest first."""
        wanted = sketch(x)
        if wanted is None or x.size not in self._rows:
            return []
        rows, keys = self._rows[x.size], self._keys[x.size]
        low, high = float(wanted[0]) * (1 - SKETCH_TOLERANCE), float(wanted[0]) * (1 + SKETCH_TOLERANCE)
        near = []
        for rms, name, other in rows[bisect_left(keys, low) :]:
            if rms > high:
                break
            distance = max(abs(rms / float(wanted[0]) - 1), float(np.abs(other[1:] - wanted[1:]).max()))
            if distance <= SKETCH_TOLERANCE * 10:
                near.append((distance, name))
        return [name for _, name in sorted(near)]
