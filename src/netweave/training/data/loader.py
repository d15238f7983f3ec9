"""Loader of data, and the arrays of one batch."""

from __future__ import annotations

import contextlib
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from netweave.errors import ShapeError, UsageError
from netweave.graph.ops.box_geometry import corners_of_centres
from netweave.graph.ops.multibox_loss import TRUTH_COLUMNS as DETECTION_COLUMNS
from netweave.runtime.engine import Engine, Variable
from netweave.runtime.engine.threaded import num_cores
from netweave.training.data.source import EndOfDataError, Record, Source
from netweave.training.data.transform import Pipeline

if TYPE_CHECKING:
    from netweave.training.data.order import BatchPlan, BatchShards, BatchShare, BatchTurns, Order


@dataclass(frozen=True, slots=True)
class Batch:
    """The arrays of one batch; they are used again after the next batch was asked for.

    Attributes:
        number: Which one, from 0 over all epochs.
        epoch: The epoch that it begins in, from 0.
        padding: How many records at its end are only there to fill it.
        arrays: By the name of the graph's input. Images are (N, C, H, W), their channels side by side in
            memory; ``torch.from_numpy`` takes that over as channels-last.
        variables: What engine tasks that read the arrays must name; the arrays are not used again before
            these are done.
        count: How many records it has.
        offset: Place of its first record in the whole batch, of which it may be a share.
    """

    number: int
    epoch: int
    padding: int
    arrays: Mapping[str, np.ndarray]
    variables: tuple[Variable, ...]
    count: int = 0
    offset: int = 0


# A ring of entries, each with the raw records of one batch and a variable: fetching writes it, the tasks
# that decode read it. So an entry is only filled again when its batch is decoded, and what waits for the
# network never holds up a thread that decodes.

MAX_BATCHES = 8
"""Batches on their way at most, besides those being decoded: a store that takes 20 ms to answer then keeps up
with a step of 3 ms."""

MAX_BYTES = 64 << 20
"""About so many bytes are on their way at most, whatever the size of records; but always one batch."""

LANE = "fetch"


class FetchAhead:
    """Raw records of the next batches.

    Args:
        source: Where they come from.
        engine: Where they are fetched.
        batch_bytes: About the size of a batch.
        decoded: Batches that are decoded ahead of the one that is given.
    """

    def __init__(self, source: Source, engine: Engine, *, batch_bytes: int, decoded: int) -> None:
        self._source = source
        self._engine = engine
        self.ahead = max(1, min(MAX_BATCHES, MAX_BYTES // max(1, batch_bytes)))
        # one more than can be on its way: the tasks that read an entry are pushed before it is written again
        self._entries = [_Entry(number) for number in range(decoded + 1 + self.ahead)]
        engine.add_lane(LANE, decoded + self.ahead)  # all that may be on its way; they only wait

    def push(self, number: int, plan: BatchPlan) -> None:
        """Begin to fetch the records of a batch, the loader's of this number."""
        entry = self._of(number)
        self._engine.push(
            functools.partial(self._fetch, entry, plan),
            writes=[entry.variable],
            lane=LANE,
            name=f"fetch batch {number}",
        )

    def variable(self, number: int) -> Variable:
        """Return what a task that decodes a batch must name."""
        return self._of(number).variable

    def records(self, number: int, piece: slice) -> Sequence[Any]:
        """Return the raw records of a piece of a batch, in a task that names its variable."""
        return self._of(number).records[piece]

    def wait(self, number: int) -> None:
        """Wait for a batch; raise its error, after which the entry can be used again."""
        self._engine.wait_for(self._of(number).variable)

    def drain(self) -> None:
        """Wait for all that is on its way, and forget it and its errors."""
        for number in range(len(self._entries)):
            with contextlib.suppress(Exception):
                self.wait(number)

    def _of(self, number: int) -> _Entry:
        return self._entries[number % len(self._entries)]

    def _fetch(self, entry: _Entry, plan: BatchPlan) -> None:
        entry.records = ()  # so that no more batches are in memory than have entries
        entry.records = self._source.fetch(plan.records.tolist())


def size_of(raw: Any) -> int:
    """Return the bytes of what a source has fetched of a record.

    >>> size_of((b"image", b"7")), size_of(None)
    (6, 0)
    """
    if isinstance(raw, tuple | list):
        return sum(map(size_of, raw))
    return len(raw) if isinstance(raw, bytes) else int(getattr(raw, "nbytes", 0))


class _Entry:
    __slots__ = ("records", "variable")

    def __init__(self, number: int) -> None:
        self.records: Sequence[Any] = ()
        self.variable = Variable(f"fetched records {number}")


WINDOW_BATCHES = 16
WINDOW_S = 0.25
"""A number of threads is judged over so many batches, and so long, at least."""

WAITING = 0.05
"""With a larger share of the time spent in waiting for batches, another thread is tried."""

GAIN = 1.03
"""A further thread must make so many times the batches per second to stay."""


class ThreadTuner:
    """Adds threads as long as somebody waits for batches and they help; takes back one that did not.

    Args:
        most: Largest number of threads; that of the processors if None.

    Attributes:
        threads: The number that is best so far, or on trial.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most or num_cores()
        self.threads = min(2, self._most)
        self._batches = 0
        self._waited_s = 0.0
        self._elapsed_s = 0.0
        self._rate_before: float | None = None  # of the number before the one on trial
        self._pause = 0  # windows without a trial
        self._next_pause = 4

    def note(self, waited_s: float, elapsed_s: float) -> bool:
        """Take note of a batch; say whether ``threads`` has changed.

        Args:
            waited_s: How long the batch was waited for.
            elapsed_s: Time since the batch before.
        """
        self._batches += 1
        self._waited_s += waited_s
        self._elapsed_s += elapsed_s
        if self._batches < WINDOW_BATCHES or self._elapsed_s < WINDOW_S:
            return False
        rate, waiting = self._batches / self._elapsed_s, self._waited_s / self._elapsed_s
        self._batches, self._waited_s, self._elapsed_s = 0, 0.0, 0.0
        before = self.threads
        self._judge(rate, waiting)
        return self.threads != before

    def _judge(self, rate: float, waiting: float) -> None:
        if self._rate_before is not None:
            if rate < GAIN * self._rate_before:
                self.threads -= 1
                self._pause = self._next_pause
                self._next_pause *= 2
            self._rate_before = None
        elif self._pause:
            self._pause -= 1
        elif waiting > WAITING and self.threads < self._most:
            self.threads += 1
            self._rate_before = rate


# There are a few slots, each with the arrays of one batch and a variable for each piece of it. Filling a
# slot is one task per piece, which writes that variable; so a slot is filled again only when whoever reads
# it is done, and an error comes up where the batch is asked for. Which records a batch has and what is
# drawn for them is a function of its number (``order``): the number is all that a checkpoint needs.

PIECE_S = 2e-3
"""About so long should one task take: long beside the cost of a task, short beside a step."""


class Loader:
    """An iterator over batches without an end, but where its source has one.

    Args:
        source: The records; closed with the loader.
        outputs: Names of the arrays, one for each part of a record.
        engine: Where batches are made.
        order: Which records are in which batch.
        transforms: What happens to the first part of a record, as a Job lists it.
        prefetch: Batches that are made ahead, >= 1.
        threads: Threads of the lane; None to find the number by itself.
        lane: Name of the lane.
        dtype: Floating-point type of the arrays.

    Attributes:
        shapes: Shapes of the arrays, by name; the batch size first.

    Raises:
        UsageError: There are not as many parts in a record as outputs, or a transform cannot be made.
        SourceError: The first record cannot be read or transformed.
    """

    def __init__(
        self,
        source: Source,
        outputs: Sequence[str],
        *,
        engine: Engine,
        order: Order | BatchShare | BatchShards | BatchTurns,
        transforms: Sequence[Mapping[str, Any]] = (),
        prefetch: int = 4,
        threads: int | None = None,
        lane: str = "input",
        dtype: type[np.floating[Any]] = np.float32,
    ) -> None:
        self._source = source
        self._engine = engine
        self._order = order
        self._lane = lane
        self._pipeline = Pipeline(transforms)
        record, cost_s, raw_bytes = self._probe(outputs, dtype)
        piece = math.ceil(PIECE_S / cost_s)
        starts = range(0, order.batch_size, piece)
        self._pieces = [slice(start, min(start + piece, order.batch_size)) for start in starts]
        self._slots = [
            _Slot(record, order.batch_size, len(self._pieces), source) for _ in range(prefetch + 1)
        ]
        self.shapes = {name: array.shape for name, array in self._slots[0].outside.items()}
        self._tuner = ThreadTuner() if threads is None else None
        engine.add_lane(lane, self._tuner.threads if self._tuner else threads or 1)
        self._fetched: FetchAhead | None = None
        if source.remote:
            self._fetched = FetchAhead(
                source, engine, batch_bytes=raw_bytes * order.batch_size, decoded=prefetch
            )
        self._next = 0  # the batch to be given next
        self._asked = 0  # the first batch that is not yet being fetched
        self._pushed = 0  # the first batch that is not yet on its way
        self._given_s = time.perf_counter()

    @property
    def batches_per_epoch(self) -> float | None:
        """Batches in one way through all records; not whole where one goes on with the next epoch."""
        return self._order.batches_per_epoch

    def take(self, *, wait: bool = True, idle_since: Callable[[], float] = lambda: 0.0) -> Batch:
        """Return the next batch; the one before is given back by this.

        Args:
            wait: Wait until it is there; else only tasks that name its variables may read it.
            idle_since: Returns since when nobody has had anything to compute, by ``perf_counter``; infinity
                while somebody has. Only from then on does waiting count as a lack of threads.

        Raises:
            EndOfDataError: The source has come to its end.
            SourceError: A record cannot be read or transformed.
        """
        number = self._next
        slot = self._slots[number % len(self._slots)]
        self._next += 1
        self._push_ahead()
        if wait:
            self._wait(slot, idle_since)
        assert slot.plan is not None
        count = len(slot.plan.records)
        arrays = slot.first(count)
        plan = slot.plan
        return Batch(number, plan.epoch, plan.padding, arrays, slot.variables, count, plan.offset)

    def state(self) -> dict[str, int]:
        """Return where the loader is, for a checkpoint."""
        return {"batch": self._next}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on where ``state`` was called, on the same source and with the same order.

        Raises:
            EndOfDataError: The source has not so many records.
        """
        self._drain()
        self._next = self._pushed = self._asked = state["batch"]
        self._source.seek(self._order.plan(self._next).first)

    def close(self) -> None:
        """Wait for what is on its way, and let go of the source."""
        self._drain()
        self._source.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        try:
            return self.take()
        except EndOfDataError:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _probe(
        self, outputs: Sequence[str], dtype: type[np.floating[Any]]
    ) -> tuple[dict[str, np.ndarray], float, int]:
        """Return the first record as it is in a batch, the seconds that took, and its size in the store."""
        source, raw = self._source, None
        first, *rest = source.peek()
        generator = self._order.generator(0)
        out = np.empty(self._pipeline.shape(first, generator, lambda: source.describe(0)), dtype)
        if source.remote:
            raw = source.fetch([0])[0]
        began = time.perf_counter()
        first, *rest = source.parse(0, raw) if source.remote else source.peek()
        rest = self._apply(first, rest, out, generator, lambda: source.describe(0), 0)
        cost_s = time.perf_counter() - began
        raw_bytes = size_of(raw)
        parts = [out, *(np.asarray(part, dtype) for part in rest)]
        if len(parts) != len(outputs):
            raise UsageError(
                f"{self._source.describe(0)}: has {len(parts)} parts, expected {len(outputs)} "
                f"({', '.join(outputs)})"
            )
        return dict(zip(outputs, parts, strict=True)), cost_s, raw_bytes

    def _apply(
        self,
        first: np.ndarray,
        rest: list[np.ndarray],
        out: np.ndarray,
        generator: np.random.Generator | None,
        place: Callable[[], str],
        offset: int,
    ) -> list[np.ndarray]:
        """Put the record of some place in a batch through the transforms; return its other parts.

        Boxes and classes of pixels have moved along.
        """
        if self._source.pixel_labels:
            classes = self._pipeline.apply(first, out, generator, place, classes=rest[0])
            assert classes is not None
            return [classes.transpose(2, 0, 1), *rest[1:]]
        if not self._source.boxes:
            self._pipeline.apply(first, out, generator, place)
            return rest
        boxes = self._pipeline.apply(first, out, generator, place, rest[0])
        assert boxes is not None
        return [_truth_rows(boxes, offset) if self._source.truth_rows else boxes, *rest[1:]]

    def _push_ahead(self) -> None:
        """Begin to fill all slots but the one of the batch that was given last."""
        if self._fetched is not None:
            while self._asked < self._next + len(self._slots) - 1 + self._fetched.ahead:
                self._fetched.push(self._asked, self._order.plan(self._asked))
                self._asked += 1
        while self._pushed < self._next + len(self._slots) - 1:
            number = self._pushed
            slot = self._slots[number % len(self._slots)]
            plan = slot.plan = self._order.plan(number)
            reads = [] if self._fetched is None else [self._fetched.variable(number)]
            for piece, variable in zip(self._pieces, slot.variables, strict=True):
                self._engine.push(
                    functools.partial(self._fill, slot, number, plan, piece),
                    reads=reads,
                    writes=[variable],
                    lane=self._lane,
                    name=f"batch {number}, records {piece.start} to {piece.stop}",
                )
            self._pushed += 1

    def _fill(self, slot: _Slot, number: int, plan: BatchPlan, piece: slice) -> None:
        records = plan.records[piece]
        if self._fetched is not None:
            raw = self._fetched.records(number, piece)
            for offset, (index, content) in enumerate(zip(records.tolist(), raw, strict=True), piece.start):
                self._fill_one(slot, offset, index, plan.first + offset, self._source.parse(index, content))
            return
        many = None if self._pipeline.by_record or not len(records) else self._source.read_many(records)
        if many is None:
            for offset, index in enumerate(records.tolist(), piece.start):
                self._fill_one(slot, offset, index, plan.first + offset, self._source.read(index))
            return
        first, *rest = many
        rows = slice(piece.start, piece.start + len(records))
        self._pipeline.apply_many(first, slot.inside[0][rows], lambda: self._source.place)
        for array, part in zip(slot.inside[1:], rest, strict=True):
            array[rows] = part

    def _fill_one(self, slot: _Slot, offset: int, index: int, place: int, record: Record) -> None:
        first, *rest = record
        describe = functools.partial(self._source.describe, index)
        generator = self._order.generator(place) if self._pipeline.random else None
        rest = self._apply(first, rest, slot.inside[0][offset], generator, describe, offset)
        for array, part in zip(slot.inside[1:], rest, strict=True):
            if np.shape(part) != array.shape[1:]:
                sizes = (
                    f"has a part of shape {np.shape(part)}, expected {array.shape[1:]} as in the first record"
                )
                raise ShapeError(sizes, place=describe())
            array[offset] = part

    def _wait(self, slot: _Slot, idle_since: Callable[[], float]) -> None:
        began = time.perf_counter()
        errors = []
        for variable in slot.variables:
            try:
                self._engine.wait_for(variable)
            except Exception as error:  # noqa: BLE001 - raised below, once all are good again
                errors.append(error)
        ended = time.perf_counter()
        starved = max(0.0, ended - max(began, idle_since()))
        if self._tuner and self._tuner.note(starved, ended - self._given_s):
            self._engine.add_lane(self._lane, self._tuner.threads)
        self._given_s = ended
        if errors:
            if self._fetched is not None:
                with contextlib.suppress(Exception):  # the same error
                    self._fetched.wait(self._next - 1)
            raise errors[0]

    def _drain(self) -> None:
        for slot in self._slots:
            for variable in slot.variables:
                with contextlib.suppress(Exception):
                    self._engine.wait_for(variable)
        if self._fetched is not None:
            self._fetched.drain()


class _Slot:
    """The arrays of one batch, used again and again.

    Attributes:
        inside: As they lie in memory; images (N, height, width, channels).
        outside: The same by name, images as (N, C, H, W).
        variables: One for each piece.
        plan: The batch that it is filled with, or is about to be.
    """

    __slots__ = ("_sequences", "_truth", "inside", "outside", "plan", "variables")

    def __init__(
        self, record: Mapping[str, np.ndarray], batch_size: int, pieces: int, source: Source
    ) -> None:
        self.inside = [np.empty((batch_size, *part.shape), part.dtype) for part in record.values()]
        self.outside = dict(zip(record, self.inside, strict=True))
        self._sequences = next(iter(record)) if source.batch_axis else ""
        self._truth = list(record)[1] if source.truth_rows else ""
        if self._truth:
            self.outside[self._truth] = _one_table(self.inside[1])
        if source.images:
            name = next(iter(record))
            self.outside[name] = self.inside[0].transpose(0, 3, 1, 2)
        elif self._sequences:
            self.outside[self._sequences] = self.inside[0].swapaxes(0, source.batch_axis)
        self.variables = tuple(Variable(f"piece {piece} of a batch") for piece in range(pieces))
        self.plan: BatchPlan | None = None

    def first(self, count: int) -> dict[str, np.ndarray]:
        """Return the arrays of the first records."""
        arrays = {name: array[:count] for name, array in self.outside.items()}
        if self._sequences:
            arrays[self._sequences] = self.outside[self._sequences][:, :count]
        if self._truth:
            arrays[self._truth] = _one_table(self.inside[1][:count])
        return arrays


def _one_table(rows: np.ndarray) -> np.ndarray:
    """Return the rows of all images of a batch, (N, rows, columns), as one table of Caffe's."""
    return rows.reshape(1, 1, -1, rows.shape[2])


def _truth_rows(boxes: np.ndarray, image: int) -> np.ndarray:
    """Return the boxes of one image of a batch as rows of Caffe's (``Source.truth_rows``)."""
    objects = boxes[boxes[:, 2] > 0]
    rows = np.full((len(boxes), DETECTION_COLUMNS), -1.0, np.float32)
    count = len(objects)
    rows[:count, 0] = image
    rows[:count, 1] = objects[:, 4]
    rows[:count, 2] = np.arange(count)
    rows[:count, 3:7] = corners_of_centres(objects[:, :4], np)
    rows[:count, 7] = objects[:, 5]
    return rows
