"""The base of sources of records, and the table of the kinds of sources.

To add one: a class with ``__len__`` and ``read`` in a module of ``training.data.sources``, and its row in
``SOURCES``.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from netweave.errors import UsageError
from netweave.files.library_errors import reading
from netweave.training.data.item import Item
from netweave.training.data.location import part_names

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.job import DataSource

Record = tuple[np.ndarray, ...]
"""The parts of a record, as a rule an image (height, width, channels; uint8) and a label."""


class EndOfDataError(Exception):
    """There is no such record: what is read has come to its end."""


_BORDERED = ("read", "read_many", "fetch", "parse", "peek", "seek", "item")
"""Methods of sources that make sense of what a file or a server holds."""


def _bordered(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method whose errors of other libraries are ReadErrors."""

    @functools.wraps(method)
    def bordered(self: Source, *args: Any, **settings: Any) -> Any:
        with reading(self.place, passes=(EndOfDataError,)):
            return method(self, *args, **settings)

    return bordered


class Source(ABC):
    """Records by number.

    ``read`` may be called from several threads at once.

    Attributes:
        place: Name of the file or folder, for messages.
        images: Whether the first part of a record is an image (height, width, channels).
        groups: Numbers of records of the parts that are read as a whole; empty if there is no such thing.
        color: Order of three channels in pixels: ``bgr`` or ``rgb``.
        endless: Whether the records have no end, or none that is known; ``len`` means nothing then.
        boxes: Whether the second part of a record is ground-truth boxes, one row each: centre x and y, width
            and height, relative to the image, class, and what else is known of the object (Darknet's and
            VOC's: whether it is difficult). Rows of zeros fill it up.
        truth_rows: Whether boxes are one table for the whole batch, (1, 1, all rows, 8), as SSD's branch of
            Caffe has it: number of the image, class, number of the object, left, top, right, bottom, and
            whether it is difficult. Rows that hold no object are -1.
        pixel_labels: Whether the second part of a record is the class of each pixel, (height, width, 1).
        remote: Whether reading waits for another machine, so that it pays to ``fetch`` ahead of time.
        batch_axis: Axis of the records in the first part of a batch; 1 where a record is a sequence of steps.
        stored: Whether records come from files or servers, whose errors become ReadErrors; errors of the
            user's own code come through as they are.
    """

    place: str = ""
    images: bool = False
    groups: tuple[int, ...] = ()
    color: str = "bgr"
    endless: bool = False
    batch_axis: int = 0
    boxes: bool = False
    pixel_labels: bool = False
    truth_rows: bool = False
    remote: bool = False
    stored: bool = True

    def __init_subclass__(cls) -> None:
        """Put the border around the methods that the class defines itself."""
        for name in _BORDERED if cls.stored else ():
            method = cls.__dict__.get(name)
            if method is not None and not getattr(method, "__isabstractmethod__", False):
                setattr(cls, name, _bordered(method))

    @abstractmethod
    def __len__(self) -> int:
        """Number of records, >= 1."""

    @abstractmethod
    def read(self, index: int) -> Record:
        """Return a record.

        Raises:
            ReadError: The record is damaged or of another kind; the message names file and record.
        """

    def read_many(self, indices: np.ndarray) -> Record | None:
        """Return several records at once, each part stacked; None where ``read`` is the way."""
        return None

    def fetch(self, indices: Sequence[int]) -> Sequence[Any]:
        """Return of several records what must be waited for, in as few requests as possible.

        Raises:
            ReadError: The store does not give them.
        """
        return [self.read(index) for index in indices]

    def parse(self, index: int, fetched: Any) -> Record:
        """Return a record from what ``fetch`` gave of it.

        Raises:
            ReadError: As ``read``.
        """
        record: Record = fetched
        return record

    def peek(self) -> Record:
        """Return the first record, which can be read again afterwards."""
        return self.read(0)

    def seek(self, index: int) -> None:  # noqa: B027 - most kinds are read by number
        """Go on at a record; those before it will not be asked for.

        Raises:
            EndOfDataError: There are not so many.
        """

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it: an image that is a file stays one.

        Raises:
            ReadError: As ``read``.
        """
        pixels, *rest = self.read(index)
        labels = rest[0] if rest else np.zeros(1)
        return Item(labels=np.asarray(labels, np.float32).reshape(-1), pixels=pixels, color=self.color)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: record {index}"

    def close(self) -> None:  # noqa: B027 - most kinds hold nothing
        """Let go of files; nothing is read afterwards."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class StoredSource(Source):
    """Records that a store holds as bytes each; reading them and making sense of them are two steps."""

    def read(self, index: int) -> Record:
        """Return a record."""
        return self.parse(index, self.fetch([index])[0])

    @abstractmethod
    def fetch(self, indices: Sequence[int]) -> Sequence[bytes]:
        """Return the bytes of several records."""

    @abstractmethod
    def parse(self, index: int, fetched: bytes) -> Record:
        """Return a record from its bytes."""


SOURCES: dict[str, tuple[str, str]] = {
    "lmdb": ("lmdb", "LMDB"),
    "recordio": ("images", "RecordIO"),
    "images": ("images", "ImageList"),
    "folder": ("images", "ImageFolder"),
    "boxes": ("images", "LabelledImages"),
    "label_images": ("label_images", "LabelImages"),
    "annotated_lmdb": ("lmdb", "AnnotatedLMDB"),
    "annotated_images": ("images", "AnnotatedImages"),
    "hdf5": ("hdf5", "HDF5"),
    "mnist": ("arrays", "MNIST"),
    "cifar": ("arrays", "CIFAR"),
    "csv": ("arrays", "CSV"),
    "kvfile": ("singa", "KVFile"),
    "shard": ("singa", "KVFile"),
    "record_lmdb": ("singa", "RecordLMDB"),
    "textfile": ("singa", "TextFile"),
    "arrays": ("arrays", "Arrays"),
    "numpy": ("arrays", "NumpyFiles"),
    "filled": ("arrays", "Filled"),
    "windows": ("composed", "Windows"),
    "iterable": ("composed", "Iterated"),
    "characters": ("composed", "Characters"),
}
"""The kinds of sources: module of ``training.data.sources`` and class. Loaded when first needed."""


def open_source(wanted: DataSource) -> Source:
    """Open the source that a Job asks for.

    A path may stand for several files that are read as one: a pattern (``train-*.rec``), or the name that
    ``pack`` was given when it split its records (``train.rec`` for ``train-00000.rec``, ...).

    Raises:
        UsageError: There is no such kind, or it lacks a setting or does not have one.
        ReadError: There is no such file, or it is of another kind.
    """
    prefix = f"{wanted.place}: " if wanted.place else ""
    if wanted.kind not in SOURCES:
        raise UsageError(
            f"{prefix}unknown kind of data {wanted.kind!r}; expected one of {', '.join(SOURCES)}"
        )
    module, name = SOURCES[wanted.kind]
    made: type[Source] = getattr(importlib.import_module(f"netweave.training.data.sources.{module}"), name)
    try:
        inspect.signature(made).bind(**wanted.settings)
    except TypeError as error:
        takes = ", ".join(inspect.signature(made).parameters)
        raise UsageError(f"{prefix}data of kind {wanted.kind!r}: {error}; it takes: {takes}") from error
    path = wanted.settings.get("path")
    names = part_names(path) if isinstance(path, str) else []
    place = str(path or wanted.place or wanted.kind)
    with reading(place):
        if not names:
            return made(**wanted.settings)
        return _open_parts(str(path), [{**wanted.settings, "path": name} for name in names], made)


def _open_parts(place: str, settings: Sequence[Mapping[str, Any]], made: type[Source]) -> Source:
    """Open files that are read as one."""
    parts = importlib.import_module("netweave.training.data.sources.composed")
    opened: list[Source] = []
    try:
        opened.extend(made(**one) for one in settings)
        joined: Source = parts.Parts(place, opened)
    except BaseException:
        for source in opened:
            source.close()
        raise
    return joined
