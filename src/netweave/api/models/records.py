"""The forms in which callers give records, as sources of data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, Source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.iterable import Indexed, Iterated

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.training.data import Record


class Borrowed(Source):
    """A source of somebody else's, which is not closed when it has been read."""

    stored = False  # the source has its own border

    def __init__(self, source: Source) -> None:
        self._source = source
        self.place, self.images, self.groups = source.place, source.images, source.groups
        self.color, self.endless = source.color, source.endless

    def __len__(self) -> int:
        return len(self._source)

    def read(self, index: int) -> Record:
        """Return a record."""
        return self._source.read(index)

    def read_many(self, indices: np.ndarray) -> Record | None:
        """Return several records at once, if the source can."""
        return self._source.read_many(indices)

    def peek(self) -> Record:
        """Return the first record."""
        return self._source.peek()

    def seek(self, index: int) -> None:
        """Go on at a record."""
        self._source.seek(index)


def as_source(data: Any, labels: Any, inputs: Sequence[str]) -> Source:
    """Return records as a source, one part for each input.

    Args:
        data: An array of all records, several of them by input, a ``data.Source``, or an object with ``len``
            and ``[]``, or an iterable, of records that are tuples of parts.
        labels: An array of all labels, if ``data`` is one of all records.
        inputs: Names of the inputs, the labels' last.

    Raises:
        UsageError: An array is missing, or they do not have as many records.
    """
    if isinstance(data, Source):
        return Borrowed(data)
    if isinstance(data, Mapping):
        missing = [name for name in inputs if name not in data]
        if missing:
            raise UsageError(f"no array given for {', '.join(missing)}; expected one of {', '.join(data)}")
        return Arrays(*(data[name] for name in inputs), names=inputs)
    if isinstance(data, np.ndarray):
        arrays = [data] if labels is None else [data, np.asarray(labels)]
        if len(arrays) != len(inputs):
            raise UsageError(f"{len(arrays)} arrays given for the inputs {', '.join(inputs)}")
        return Arrays(*arrays, names=inputs)
    if isinstance(data, tuple) and len(data) == len(inputs) and all(isinstance(a, np.ndarray) for a in data):
        return Arrays(*data, names=inputs)
    if labels is not None:
        raise UsageError(
            f"labels are given beside {type(data).__name__}, whose records already contain labels"
        )
    if isinstance(data, Sequence) or (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        return Indexed(data)
    if not hasattr(data, "__iter__"):
        raise UsageError(
            f"records are of type {type(data).__name__}, expected arrays, a source or an iterable"
        )
    return Iterated(data)


def record_shapes(source: Source, inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the sizes of one record's parts, by input.

    Raises:
        UsageError: A record has another number of parts.
        SourceError: The first record cannot be read.
    """
    parts = source.peek()
    if len(parts) != len(inputs):
        raise UsageError(
            f"{source.describe(0)}: has {len(parts)} parts, expected {len(inputs)}: {', '.join(inputs)}"
        )
    shapes = [np.shape(part) for part in parts]
    if source.images:
        height, width, channels = shapes[0]
        shapes[0] = (channels, height, width)
    return dict(zip(inputs, shapes, strict=True))


def batches(source: Source, inputs: Sequence[str], batch_size: int) -> Iterator[dict[str, np.ndarray]]:
    """Yield all records once, in order, the last batch shorter; what is yielded is used again.

    Raises:
        UsageError: The records have no known end.
        SourceError: A record cannot be read.
    """
    if source.endless:
        raise UsageError(f"{source.place}: its length is unknown; give arrays, or an object with len and []")
    count = len(source)
    order = Order(num_records=count, batch_size=min(batch_size, count), last="short")
    with ThreadedEngine() as engine, Loader(source, inputs, engine=engine, order=order) as loader:
        for _ in range(-(-count // order.batch_size)):
            yield dict(loader.take().arrays)
