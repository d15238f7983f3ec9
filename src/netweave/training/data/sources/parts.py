"""Records that are spread over several files, read as one: those of ``pack --split-size``, or any others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import ReadError
from netweave.training.data.source import Record, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from netweave.training.data.item import Item


class Parts(Source):
    """The records of several sources, one after another; an order shuffles all of them together.

    Args:
        place: What the user calls them.
        sources: The sources, at least one; closed with this.

    Raises:
        ReadError: They hold different kinds of records, or records without an end.
    """

    def __init__(self, place: str, sources: Sequence[Source]) -> None:
        first = sources[0]
        self.place = place
        self._sources = tuple(sources)
        self.images, self.color, self.batch_axis = first.images, first.color, first.batch_axis
        self.remote = any(source.remote for source in sources)
        for source in sources:
            if source.endless or (source.images, source.color) != (first.images, first.color):
                self.close()
                raise ReadError(
                    f"holds records of another kind than {first.place}; all parts must be alike",
                    place=source.place,
                )
        self.groups = tuple(group for source in sources for group in source.groups)
        self._starts = np.cumsum([0, *(len(source) for source in sources)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def read(self, index: int) -> Record:
        """Return a record."""
        source, own = self._of(index)
        return source.read(own)

    def read_many(self, indices: np.ndarray) -> Record | None:
        """Return several records at once, where all parts can, and theirs are alike."""
        parts: list[np.ndarray] = []
        numbers = np.searchsorted(self._starts, indices, side="right") - 1
        for number in np.unique(numbers).tolist():
            chosen = np.flatnonzero(numbers == number)
            found = self._sources[number].read_many(indices[chosen] - self._starts[number])
            if found is None:
                return None
            parts = parts or [np.empty((len(indices), *array.shape[1:]), array.dtype) for array in found]
            if [(part.shape[1:], part.dtype) for part in parts] != [
                (array.shape[1:], array.dtype) for array in found
            ]:
                return None  # one by one, which converts types and says whose shape is another
            for part, array in zip(parts, found, strict=True):
                part[chosen] = array
        return tuple(parts)

    def fetch(self, indices: Sequence[int]) -> list[Any]:
        """Return what must be waited for, from each part at once."""
        by_part: dict[int, list[int]] = {}
        for place, index in enumerate(indices):
            by_part.setdefault(self._number(index), []).append(place)
        found: list[Any] = [None] * len(indices)
        for number, places in by_part.items():
            own = [indices[place] - int(self._starts[number]) for place in places]
            for place, content in zip(places, self._sources[number].fetch(own), strict=True):
                found[place] = content
        return found

    def parse(self, index: int, fetched: Any) -> Record:
        """Return a record from what ``fetch`` gave of it."""
        source, own = self._of(index)
        return source.parse(own, fetched)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        source, own = self._of(index)
        return source.item(own)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        source, own = self._of(index)
        return source.describe(own)

    def close(self) -> None:
        """Close all parts."""
        for source in self._sources:
            source.close()

    def _number(self, index: int) -> int:
        return int(np.searchsorted(self._starts, index, side="right")) - 1

    def _of(self, index: int) -> tuple[Source, int]:
        number = self._number(index)
        return self._sources[number], index - int(self._starts[number])
