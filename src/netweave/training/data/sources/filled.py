"""Caffe's DummyData: arrays made by fillers instead of read (``dummy_data_layer.cpp``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UnsupportedError
from netweave.training.data.source import Record, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Draw = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, Any]], np.ndarray]

DRAWS: dict[str, Draw] = {
    "constant": lambda generator, shape, filler: np.full(shape, filler.get("value", 0.0), np.float32),
    "uniform": lambda generator, shape, filler: generator.uniform(
        filler.get("min", 0.0), filler.get("max", 1.0), shape
    ),
    "gaussian": lambda generator, shape, filler: generator.normal(
        filler.get("mean", 0.0), filler.get("std", 1.0), shape
    ),
}
"""The fillers that make sense for records."""


class Filled(Source):
    """Records without an end: constants, or numbers drawn anew for each.

    Args:
        shapes: Sizes of each part of a record, without the batch.
        fillers: One for each part, or one for all: ``type`` and its numbers by Caffe's names.
        place: Where the source file says so, for messages.

    Raises:
        UnsupportedError: There is no such filler for records.
    """

    endless = True

    def __init__(
        self, shapes: Sequence[Sequence[int]], fillers: Sequence[Mapping[str, Any]], place: str = ""
    ) -> None:
        self._shapes = [tuple(shape) for shape in shapes]
        self._fillers = [fillers[min(index, len(fillers) - 1)] for index in range(len(shapes))]
        self.place = place
        self.images = len(self._shapes[0]) == 3
        for filler in self._fillers:
            if filler["type"] not in DRAWS:
                raise UnsupportedError(
                    f"fills records with {filler['type']!r}, expected {', '.join(DRAWS)}", place=place
                )

    def __len__(self) -> int:
        return 1

    def read(self, index: int) -> Record:
        """Return a record; what is drawn for it follows from its number."""
        parts = []
        for number, (shape, filler) in enumerate(zip(self._shapes, self._fillers, strict=True)):
            drawn = DRAWS[filler["type"]](np.random.default_rng([index, number]), shape, filler)
            parts.append(np.asarray(drawn, np.float32))
        if self.images:
            parts[0] = parts[0].transpose(1, 2, 0)
        return tuple(parts)
