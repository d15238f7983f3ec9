"""The forms in which Keras' users give records: arrays, dictionaries by name, generators of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from netweave.errors import UsageError
from netweave.runtime.engine import ThreadedEngine
from netweave.training.data import Loader, Order, Record, Source
from netweave.training.data.sources.arrays import Arrays
from netweave.training.data.sources.composed import Iterated

if TYPE_CHECKING:
    from netweave.keras.layer import Network


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


@dataclass(frozen=True, slots=True)
class Given:
    """Records, and how many make a batch.

    Attributes:
        source: The records, one part for each input, label and weight.
        batch_size: Records in a batch.
        num_labels: How many parts are labels.
        weighted: Which of the labels have a weight behind them.
        num_batches: Batches in an epoch, where what yields them says so and has no end.
    """

    source: Source
    batch_size: int
    num_labels: int
    weighted: tuple[bool, ...]
    num_batches: int | None = None


def given_records(
    network: Network,
    x: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    batch_size: int | None = None,
    outputs: Sequence[str],
    once: bool = False,
) -> Given:
    """Return records.

    Args:
        network: The model, for the names of its inputs.
        x: Arrays: one, a list, or by the names of inputs; or what yields batches (x, y) or (x, y, weights):
            a generator, a list, an object with ``len`` and ``[]``; or a source of ``netweave.training.data``.
        y: Arrays of labels, in the same forms, if ``x`` is arrays.
        sample_weight: A weight for each record, or for each output's.
        class_weight: A weight for each class, instead.
        batch_size: Records in a batch; None for 32, or what ``x`` yields.
        outputs: Names of the outputs that have labels.
        once: Whether batches are taken by their numbers, also where they are drawn anew in each epoch.

    Raises:
        UsageError: Arrays are missing, do not have as many records, or are of another kind.
    """
    if isinstance(x, Source):
        return Given(Borrowed(x), batch_size or 32, len(outputs), (False,) * len(outputs))
    if _is_arrays(x):
        parts, weighted = _parts(
            network, x, y, sample_weight=sample_weight, class_weight=class_weight, outputs=outputs
        )
        names = [f"array {number}" for number in range(len(parts))]
        return Given(Arrays(*parts, names=names, images=False), batch_size or 32, len(outputs), weighted)
    if y is not None or sample_weight is not None or batch_size is not None:
        raise UsageError(
            f"x is {type(x).__name__}, whose batches hold labels and weights already; leave out y, "
            "sample_weight and batch_size"
        )
    batches = _Batches(network, x, class_weight, outputs, once=once)
    source = Arrays(*batches.joined(), images=False) if batches.finite else _Records(batches)
    count = len(x) if not batches.finite and hasattr(x, "__len__") else None
    return Given(source, batches.size, len(outputs), batches.weighted, count)


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


class _Batches:
    """An iterator of batches that starts over where the source can."""

    def __init__(
        self,
        network: Network,
        batches: Any,
        class_weight: Mapping[int, float] | None,
        outputs: Sequence[str],
        *,
        once: bool,
    ) -> None:
        self._network, self._class_weight, self._outputs = network, class_weight, outputs
        # what can be reset draws anew in each epoch, as the images of an ImageDataGenerator are
        draws = hasattr(batches, "reset") and hasattr(batches, "__next__")
        self.finite = hasattr(batches, "__len__") and hasattr(batches, "__getitem__")
        self.finite = self.finite and (once or not draws)
        if not self.finite and not hasattr(batches, "__iter__"):
            raise UsageError(f"x is {type(batches).__name__}, expected arrays, or what yields batches")
        self._batches = batches
        self._iterator = None if self.finite else iter(batches)
        first = batches[0] if self.finite else next(self._iterator)  # type: ignore[arg-type]  # what is not finite has one
        self._first: Any = first
        parts, self.weighted = self._arrays(first)
        self.size = len(parts[0])

    def joined(self) -> list[np.ndarray]:
        """Return the records of all batches."""
        rows = [self._arrays(self._batches[number])[0] for number in range(len(self._batches))]
        return [np.concatenate(column) for column in zip(*rows, strict=True)]

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        assert self._iterator is not None
        if self._first is None and iter(self._batches) is not self._batches:
            self._iterator = iter(self._batches)
        if self._first is not None:
            first, self._first = self._first, None
            yield from self._rows(first)
        for batch in self._iterator:
            yield from self._rows(batch)

    def _rows(self, batch: Any) -> Iterator[tuple[np.ndarray, ...]]:
        parts, _ = self._arrays(batch)
        yield from zip(*parts, strict=True)

    def _arrays(self, batch: Any) -> tuple[list[np.ndarray], tuple[bool, ...]]:
        if not isinstance(batch, (tuple, list)) or not 2 <= len(batch) <= 3:
            raise UsageError(f"a batch is {type(batch).__name__}, expected (x, y) or (x, y, sample_weight)")
        x, y, *weights = batch
        return _parts(
            self._network,
            x,
            y,
            sample_weight=weights[0] if weights else None,
            class_weight=self._class_weight,
            outputs=self._outputs,
        )


class _Records(Iterated):
    """Records of what yields batches without a known end."""

    def __init__(self, batches: Iterable[Any]) -> None:
        super().__init__(batches)
        self.images = False

    def parts(self, item: Any, index: int) -> Any:
        """Return the parts of a record as they are."""
        return tuple(np.asarray(part) for part in item)


def _is_arrays(x: Any) -> bool:
    if isinstance(x, (np.ndarray, Mapping)):
        return True
    if isinstance(x, (list, tuple)):
        return bool(len(x)) and all(isinstance(one, np.ndarray) for one in x)
    return hasattr(x, "__array__")


def _parts(
    network: Network,
    x: Any,
    y: Any,
    *,
    sample_weight: Any,
    class_weight: Mapping[int, float] | None,
    outputs: Sequence[str],
) -> tuple[list[np.ndarray], tuple[bool, ...]]:
    data = by_name(x, network.input_names, "input")
    if not outputs:
        return data, ()
    if y is None:
        raise UsageError("y is missing: give the labels, or batches of (x, y)")
    labels = by_name(y, outputs, "output")
    if class_weight is not None:
        if sample_weight is not None or len(outputs) > 1:
            raise UsageError(
                "class_weight is for one output, and cannot be given together with sample_weight"
            )
        sample_weight = _class_weights(labels[0], class_weight)
    weights: list[np.ndarray | None] = [None] * len(outputs)
    if sample_weight is not None:
        if isinstance(sample_weight, Mapping):
            weights = [np.asarray(sample_weight[name]) if name in sample_weight else None for name in outputs]
        elif isinstance(sample_weight, (list, tuple)) and len(sample_weight) == len(outputs):
            weights = [np.asarray(one) for one in sample_weight]
        else:
            weights = [np.asarray(sample_weight)] * len(outputs)
    given = [one for one in weights if one is not None]
    return [*data, *labels, *given], tuple(one is not None for one in weights)


def by_name(given: Any, names: Sequence[str], noun: str) -> list[np.ndarray]:
    """Return arrays in the order of names, from one array, a list or a dictionary.

    Raises:
        UsageError: One is missing, or there are more.
    """
    if isinstance(given, Mapping):
        missing = [name for name in names if name not in given]
        if missing:
            raise UsageError(f"no array for the {noun} {missing[0]!r}; given: {', '.join(map(str, given))}")
        return [np.asarray(given[name]) for name in names]
    if isinstance(given, (list, tuple)) and len(names) > 1:
        if len(given) != len(names):
            raise UsageError(f"{len(given)} arrays for the {noun}s {', '.join(names)}")
        return [np.asarray(one) for one in given]
    if isinstance(given, (list, tuple)) and len(given) == 1 and np.ndim(given[0]) > 0:
        return [np.asarray(given[0])]
    if len(names) > 1:
        raise UsageError(f"one array for the {noun}s {', '.join(names)}; give a list, or a dictionary")
    return [np.asarray(given)]


def _class_weights(labels: np.ndarray, class_weight: Mapping[int, float]) -> np.ndarray:
    """Return the weight of each record; a class that is not named has the weight 1."""
    if labels.ndim > 1 and labels.shape[-1] > 1:
        labels = labels.argmax(-1)
    classes = labels.reshape(len(labels), -1)[:, 0].astype(np.int64)
    return np.asarray([class_weight.get(int(one), 1.0) for one in classes], np.float32)


def split_off(arrays: Any, share: float) -> tuple[Any, Any]:
    """Return all but the last records, and the last; of arrays, or of lists or dictionaries of them.

    Raises:
        UsageError: The share is none, or what is split is no array.
    """
    if arrays is None:
        return None, None
    if isinstance(arrays, Mapping):
        halves = {name: split_off(one, share) for name, one in arrays.items()}
        return tuple({name: half[at] for name, half in halves.items()} for at in (0, 1))  # type: ignore[return-value]  # of two
    if isinstance(arrays, (list, tuple)):
        pairs = [split_off(one, share) for one in arrays]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    if not hasattr(arrays, "__array__") or not 0 < share < 1:
        raise UsageError(f"validation_split={share} needs arrays, and a fraction between 0 and 1")
    array = np.asarray(arrays)
    at = int(len(array) * (1 - share))
    return array[:at], array[at:]
