"""Sketches of tensors: a few numbers that do not depend on layout, and the matching of tensors by them.

Two tensors that hold the same values in any order have the same sketch up to rounding. A match of sketches is
a proposal; ``values`` checks it element by element.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from netweave.comparison.metric import BLOCK

# without the layer of Python over them, which takes longer than small tensors
_sum, _max, _min = np.add.reduce, np.maximum.reduce, np.minimum.reduce

SKETCH_TOLERANCE = 1e-3
"""Largest difference of two sketches of the same values.

Values that agree within ``LOCAL_TOLERANCE`` have sketches that differ by up to three times of it (the skew).
It only proposes: a comparison of all elements decides, so too large a bound costs time alone (decision 0010),
but much of it where the values of a large net are computed again to be held against each other.
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
            top, bottom = max(top, float(_max(part))), min(bottom, float(_min(part)))
            square = part * part
            sums += [_sum(square), _sum(part), _sum(np.abs(part)), np.dot(square, part)]
        rms = float(np.sqrt(sums[0] / flat.size))
        if top == bottom or rms == 0 or not np.isfinite(sums).all():
            return None
        mean, size, cubed = sums[1:] / flat.size / rms
    return np.array([rms, mean, size, cubed / rms**2, top / rms, bottom / rms])


@dataclass(slots=True)
class SketchIndex:
    """Sketches of one net's tensors, to be asked for those like a given one."""

    _rows: dict[int, list[tuple[float, str, np.ndarray]]] = field(default_factory=lambda: defaultdict(list))
    """By number of elements: rms, name and sketch, in the order of the rms."""

    def add(self, name: str, x: np.ndarray) -> None:
        """Sketch a tensor, if it says enough."""
        sketched = sketch(x)
        if sketched is not None:
            insort(self._rows[x.size], (float(sketched[0]), name, sketched), key=_rms)

    def like(self, size: int, wanted: np.ndarray | None) -> list[str]:
        """Return the names of the tensors whose sketch is one of another net, nearest first.

        Args:
            size: Number of elements of the other net's tensor.
            wanted: Its sketch; None for one that says too little.
        """
        if wanted is None:
            return []
        low, high = float(wanted[0]) * (1 - SKETCH_TOLERANCE), float(wanted[0]) * (1 + SKETCH_TOLERANCE)
        rows = self._rows.get(size, [])
        near = []
        for index in range(bisect_left(rows, low, key=_rms), bisect_right(rows, high, key=_rms)):
            rms, name, other = rows[index]
            distance = max(abs(rms / float(wanted[0]) - 1), float(np.abs(other[1:] - wanted[1:]).max()))
            if distance <= SKETCH_TOLERANCE:
                near.append((distance, name))
        return [name for _, name in sorted(near)]


def _rms(row: tuple[float, str, np.ndarray]) -> float:
    return row[0]
