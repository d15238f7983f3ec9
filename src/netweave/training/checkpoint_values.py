"""The values of a checkpoint, checked before a run resumes with them.

A checksum says that a file is as it was written, not that Netweave wrote it: whoever makes a checkpoint can
give it a right checksum. Sizes of parameters and of the solver's state are compared with the net's where they
are restored (``TrainState.restore``); here are types, signs and ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError
from netweave.files.json_text import checked
from netweave.training.checkpoint_file import Checkpoint, read_checkpoint

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


MAX_COUNT = 1 << 53
"""More iterations, batches and points than any run has; JSON of other programs is exact up to here."""

MAX_SEED = 1 << 64

_KINDS = "fiub"


def read_run(path: Path) -> Checkpoint:
    """Read a checkpoint that a run resumes from.

    Raises:
        ReadError: It is missing, damaged, or holds what no run writes.
    """
    checkpoint = read_checkpoint(path)
    require_values(checkpoint, place=str(path))
    return checkpoint


def require_values(checkpoint: Checkpoint, *, place: str) -> None:
    """Check the values of a checkpoint of a run.

    Args:
        checkpoint: As it was read.
        place: Its file, for messages.

    Raises:
        ReadError: A value is missing, of another type, or out of its range.
    """
    state = _Values(checkpoint.state, place)
    seed = state.whole("seed", limit=MAX_SEED)
    if seed <= -MAX_SEED:
        raise state.error("seed", seed, "a number of 64 bits")
    state.numbers("losses")
    if "displayed batches" in checkpoint.state:
        state.count("displayed batches")
    solver = state.inside("solver")
    solver.count("iteration")
    for name in ("policy", "memory"):
        inner = solver.inside(name)
        for key in inner.values:
            inner.number(key)
    feeds = state.inside("feeds")
    for name in feeds.values:
        for row in feeds.rows(name):
            row.count("batch")
    _require_history(state.inside("history"))
    if checkpoint.state.get("layout"):
        state.inside("layout").count("slice_elements", least=1)
    for name, array in checkpoint.arrays.items():
        _require_numbers(array, name, place)


def _require_history(history: _Values) -> None:
    for name in history.of("losses", list):
        if not isinstance(name, str):
            raise history.error("losses", name, "names of curves")
    curves = history.inside("curves")
    for name in curves.values:
        curve = curves.inside(name)
        points = curve.of("points", list)
        last = curve.values.get("last")
        for point in points if last is None else [*points, last]:
            if not _is_point(point):
                raise curve.error("points", point, "an iteration and a value")
        curve.count("stride", least=1)
        curve.count("count")
        if last is not None and not points:
            raise curve.error("points", points, "the first point of a curve that has a last")


def _require_numbers(array: np.ndarray, name: str, place: str) -> None:
    dtype = array.dtype
    if dtype.kind not in _KINDS or not dtype.isnative or dtype.itemsize > 8:
        raise ReadError(f"{name!r:.200} is an array of {dtype!s:.60}, expected numbers", place=place)


class _Values:
    """The values of an object by key, and where it stands in the checkpoint.

    Args:
        values: The object.
        place: The checkpoint.
        path: Keys that lead to the object.
    """

    def __init__(self, values: Mapping[str, Any], place: str, path: str = "") -> None:
        self.values = values
        self._place, self._path = place, path

    def error(self, key: str, value: Any, expected: str) -> ReadError:
        """Return the error for a value."""
        return ReadError(
            f"is no checkpoint of Netweave, or damaged: {self._path + key!r:.200} is {value!r:.60}, "
            f"expected {expected}",
            place=self._place,
        )

    def of(self, key: str, kind: type[Any]) -> Any:
        """Return a value of a type."""
        if key not in self.values:
            missing = f"{self._path + key!r:.200}"
            raise ReadError(f"is no checkpoint of Netweave: has no {missing}", place=self._place)
        return checked(self.values[key], kind, what=f"{self._path + key!r:.200}", place=self._place)

    def inside(self, key: str) -> _Values:
        """Return the values of an object."""
        return _Values(self.of(key, dict), self._place, f"{self._path}{key}.")

    def rows(self, key: str) -> list[_Values]:
        """Return the objects of a list."""
        found = self.of(key, list)
        for row in found:
            if not isinstance(row, Mapping):
                raise self.error(key, row, "an object")
        return [_Values(row, self._place, f"{self._path}{key}.") for row in found]

    def whole(self, key: str, *, limit: int = MAX_COUNT) -> int:
        """Return a whole number below a limit."""
        number: int = self.of(key, int)
        if number >= limit:
            raise self.error(key, number, f"less than {limit:,}")
        return number

    def count(self, key: str, *, least: int = 0) -> int:
        """Return a number of things."""
        number = self.whole(key)
        if number < least:
            raise self.error(key, number, f"at least {least}")
        return number

    def number(self, key: str) -> float:
        """Return a number."""
        if not _is_number(self.values[key]):
            raise self.error(key, self.values[key], "a number")
        return float(self.values[key])

    def numbers(self, key: str) -> None:
        """Check a list of numbers."""
        for number in self.of(key, list):
            if not _is_number(number):
                raise self.error(key, number, "a number")


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (
        isinstance(value, int) and abs(value) < MAX_SEED and not isinstance(value, bool)
    )


def _is_point(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _is_count(value[0]) and _is_number(value[1])


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
