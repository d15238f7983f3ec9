"""Tensors of two runs paired by what they hold, and tensors that are wrong by what they resemble."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from netweave.comparison.align.sketches import SKETCH_TOLERANCE, sketch
from netweave.comparison.layout.change import LayoutChange
from netweave.comparison.layout.tensors import candidate_layouts, solve_layout
from netweave.comparison.metric import LOCAL_TOLERANCE, relative_error

TOLERANCES = {
    "float64": LOCAL_TOLERANCE,
    "float32": LOCAL_TOLERANCE,
    "float16": 2e-2,
    "bfloat16": 1e-1,
    "float8": 4e-1,
}
"""Largest error, relative to the rms, that rounding of a run in this format explains."""

ROUNDED = {"float8": 0xFFFFF, "bfloat16": 0xFFFF}
"""The lower bits of float32 that are zeros in what was computed in this format."""

LIKE = 0.5
"""Least correlation of a tensor that is wrong with the one in its place."""

MAX_SAMPLED = 1 << 14
"""Elements that a correlation is computed from."""

MAX_UNMATCHED = 400
"""Tensors of one run that are held against those of the other when they are wrong, the first ones."""

PRINTED = 5e-5
"""Largest error of a number that is printed with four digits behind the point."""

PRINTED_TOLERANCE = 5e-3
"""Largest error, relative to the rms, of printed values: llama.cpp keeps keys in 16 bits."""

MIN_PRINTED = 6
"""Fewest values of a tensor, of which others are not known, that say which one it is."""

Arrays = Mapping[str, np.ndarray]


def is_partial(x: np.ndarray) -> bool:
    """Return whether some values of a tensor are not known."""
    return bool(np.isnan(x).any())


def error_of(a: np.ndarray, b: np.ndarray) -> float:
    """Return the largest difference relative to the rms, of the values that are known of B."""
    if a.shape != b.shape or not is_partial(b):
        return relative_error(a, b)
    known = ~np.isnan(b)
    return relative_error(a[known][None], b[known][None])


@dataclass(frozen=True, slots=True)
class TensorPair:
    """A tensor of A and one of B.

    Attributes:
        a: Its name in A.
        b: Its name in B.
        change: How A's becomes B's.
        error: Difference relative to the rms; None if the two are only alike.
        likeness: Correlation of their elements.
    """

    a: str
    b: str
    change: LayoutChange
    error: float | None = None
    likeness: float = 1.0


def precision_of(arrays: Iterable[np.ndarray]) -> str:
    """Return the format that a run was computed in, by the types and the values of its tensors.

    What was computed in bfloat16 or float8 is often stored as float32, whose lower bits are then zeros.
    """
    floats = [x for x in arrays if _is_float(x)]
    if any(str(x.dtype).startswith("float8") for x in floats):
        return "float8"
    if any(x.dtype == np.float16 for x in floats):
        return "float16"
    if any(str(x.dtype) == "bfloat16" for x in floats):
        return "bfloat16"
    singles = [x for x in floats if x.dtype == np.float32 and x.size > 1]
    for kind, lower in ROUNDED.items():
        rounded = sum(
            not (np.ascontiguousarray(x).reshape(-1).view(np.uint32) & lower).any() for x in singles
        )
        if singles and rounded > len(singles) / 2:
            return kind
    return "float32"


def _is_float(x: np.ndarray) -> bool:
    return x.dtype.kind == "f" or str(x.dtype).startswith(("bfloat16", "float8"))


def comparable_arrays(arrays: Arrays) -> dict[str, np.ndarray]:
    """Return tensors of floating point as float32; counters, ids and single numbers say too little."""
    kept = {}
    for name, x in arrays.items():
        if _is_float(x) and x.size > 1:
            kept[name] = x if x.dtype == np.float32 else x.astype(np.float32)
    return kept


@dataclass(slots=True)
class TensorIndex:
    """Tensors of B, to be asked for those that hold the values of one of A.

    Attributes:
        arrays: The tensors by name.
        tolerance: Largest error that counts as rounding.
    """

    arrays: Arrays
    tolerance: float
    _rows: dict[int, list[tuple[str, np.ndarray]]] = field(default_factory=lambda: defaultdict(list))

    _partial: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for name, x in self.arrays.items():
            sketched = sketch(x)
            if sketched is not None:
                self._rows[x.size].append((name, sketched))
            elif is_partial(x) and _says_enough(x):
                self._partial[x.size].append(name)

    @property
    def names(self) -> list[str]:
        """The tensors that say enough to be told from others."""
        known = {name for rows in self._rows.values() for name, _ in rows}
        known.update(name for names in self._partial.values() for name in names)
        return [name for name in self.arrays if name in known]

    def find(
        self,
        name: str,
        x: np.ndarray,
        hints: tuple[tuple[int, ...], ...] = (),
        *,
        in_any_order: bool = False,
    ) -> list[TensorPair]:
        """Return the tensors of B that hold the values of one of A, in any layout.

        Args:
            name: Its name.
            x: Its values.
            hints: Permutations of axes that are tried first.
            in_any_order: Whether, where there is none, one counts that has the features of each step in
                another order. A port that stores its weights so, as for rotary pairs of neighbours, is right.
        """
        found = [pair for other in self._partial.get(x.size, ()) for pair in self._printed(name, x, other)]
        near = list(self._near(x))
        for other in near:
            solved = solve_layout(x, self.arrays[other], tolerance=self.tolerance, hints=hints)
            if solved is not None:
                found.append(TensorPair(name, other, *solved))
        if found or not in_any_order:
            return found
        for other in near:
            y = self.arrays[other]
            rows = np.sort(y, -1)
            for change in candidate_layouts(x.shape, y.shape) if y.ndim > 1 else ():
                error = error_of(np.sort(change.apply(x), -1), rows)
                if error <= self.tolerance:
                    found.append(TensorPair(name, other, change, error))
                    break
        return found

    def _near(self, x: np.ndarray) -> Iterator[str]:
        """Yield the tensors whose sketch is that of another one."""
        rows = self._rows.get(x.size)
        wanted = sketch(x) if rows else None
        bound = max(SKETCH_TOLERANCE, self.tolerance)
        if not rows or wanted is None:
            return
        for other, sketched in rows:
            apart = max(abs(sketched[0] / wanted[0] - 1), float(np.abs(sketched[1:] - wanted[1:]).max() / 10))
            if apart <= bound:
                yield other

    def _printed(self, name: str, x: np.ndarray, other: str) -> Iterator[TensorPair]:
        """Yield the layout in which a tensor has the values that are known of one of B."""
        y = self.arrays[other]
        known = ~np.isnan(y)
        tolerance = max(self.tolerance, PRINTED_TOLERANCE) + PRINTED / float(
            np.sqrt(np.square(y[known]).mean())
        )
        for change in _layouts(x.shape, y.shape):
            error = error_of(change.apply(x), y)
            if error <= tolerance:
                yield TensorPair(name, other, change, error)
                return


def _says_enough(x: np.ndarray) -> bool:
    values = np.unique(x[~np.isnan(x)])
    return len(values) >= MIN_PRINTED and bool(values.std() > 100 * PRINTED)


def match_tensors(a: Arrays, index: TensorIndex) -> dict[str, list[TensorPair]]:
    """Return the tensors of B that hold the values of each of A; those that have none are left out."""
    found: dict[str, list[TensorPair]] = {}
    hints: dict[tuple[int, ...], None] = {}
    for name, x in a.items():
        pairs = index.find(name, x, tuple(hints))
        if pairs:
            found[name] = pairs
            hints.update({pair.change.axes: None for pair in pairs if pair.change.axes is not None})
    return found


def alike(a: Arrays, b: Arrays) -> list[TensorPair]:
    """Return pairs of tensors that resemble each other most, each the other's best, in A's order.

    Args:
        a: Tensors of A without a counterpart, in the order of the net.
        b: Tensors of B without a counterpart.
    """
    names_a, names_b = list(a)[:MAX_UNMATCHED], list(b)[:MAX_UNMATCHED]
    scores: dict[tuple[str, str], TensorPair] = {}
    for name_a in names_a:
        for name_b in names_b:
            if a[name_a].size == b[name_b].size:
                pair = _likeness(name_a, a[name_a], name_b, b[name_b])
                if pair is not None and pair.likeness >= LIKE:
                    scores[name_a, name_b] = pair
    best_a = _best(scores.values(), lambda pair: pair.a)
    best_b = _best(scores.values(), lambda pair: pair.b)
    return [best_a[name] for name in names_a if name in best_a and best_b[best_a[name].b] is best_a[name]]


def _best(pairs: Iterable[TensorPair], key: object) -> dict[str, TensorPair]:
    assert callable(key)
    best: dict[str, TensorPair] = {}
    for pair in pairs:
        name = key(pair)
        if name not in best or pair.likeness > best[name].likeness:
            best[name] = pair
    return best


def _likeness(name_a: str, a: np.ndarray, name_b: str, b: np.ndarray) -> TensorPair | None:
    """Return the likeliest layout of two tensors, and their correlation under it."""
    step = max(1, b.size // MAX_SAMPLED)
    chosen = np.arange(0, b.size, step)
    if is_partial(b):
        chosen = np.flatnonzero(~np.isnan(b.reshape(-1)))
        if not _says_enough(b) or len(chosen) < 2 * MIN_PRINTED:
            return None
    there = _standard(b.reshape(-1)[chosen])
    best: TensorPair | None = None
    for change in _layouts(a.shape, b.shape):
        here = _standard(change.apply(a).reshape(-1)[chosen])
        if here is None or there is None:
            return None
        likeness = float(here @ there / here.size)
        if best is None or likeness > best.likeness:
            best = TensorPair(name_a, name_b, change, likeness=likeness)
    return best


def _layouts(shape_a: Sequence[int], shape_b: Sequence[int]) -> list[LayoutChange]:
    layouts = list(candidate_layouts(tuple(shape_a), tuple(shape_b)))
    return layouts or [LayoutChange(shape=tuple(shape_b))]


def _standard(x: np.ndarray) -> np.ndarray | None:
    """Return elements with mean 0 and variance 1; None if they are all the same, or not finite."""
    values = x.astype(np.float64)
    deviation = float(values.std())
    if not np.isfinite(deviation) or deviation == 0:
        return None
    return np.asarray((values - values.mean()) / deviation)
