"""Lists of image files: Caffe's ``path label`` and MXNet's ``.lst``."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from netweave.errors import ReadError
from netweave.files.image_lists import SUFFIXES
from netweave.job import require_allowed
from netweave.runtime.images.decode import decode
from netweave.training.data.item import Item
from netweave.training.data.location import is_remote, join, lines_of, read_file, read_files
from netweave.training.data.source import Record, StoredSource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class ImageFiles(StoredSource):
    """Image files; a subclass says what belongs to each.

    Attributes:
        files: Their names.
    """

    images = True

    def __init__(self, place: str, color: str, files: list[str]) -> None:
        self.place = place
        self._color = color
        self.files = files
        self.remote = any(map(is_remote, files))

    def __len__(self) -> int:
        return len(self.files)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: record {index} ({self.files[index]})"

    def fetch(self, indices: Sequence[int]) -> list[bytes]:
        """Return several files."""
        if len(indices) == 1:
            return [self._content(indices[0])]
        try:
            return read_files([self.files[index] for index in indices])
        except ReadError:
            return [self._content(index) for index in indices]  # which says whose file it is

    @abstractmethod
    def labels_of(self, index: int) -> np.ndarray:
        """Return what a writer is given beside an image: float32, one axis."""

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        name = self.files[index].removeprefix(f"{self.place}/")
        return Item(name, self.labels_of(index), content=self._content(index))

    def _content(self, index: int) -> bytes:
        try:
            return read_file(self.files[index])
        except ReadError as error:
            raise ReadError(error.message, place=self.describe(index)) from error


class _Classified(ImageFiles):
    """Images with numbers.

    Attributes:
        labels: float32, one row for each; one number for each where that is all.
    """

    def __init__(self, place: str, color: str, files: list[str], labels: list[list[float]]) -> None:
        super().__init__(place, color, files)
        self.labels = np.array(labels, np.float32)
        if self.labels.shape[1] == 1:
            self.labels = self.labels[:, 0]

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and label."""
        return decode(fetched, self._color, lambda: self.describe(index)), self.labels[index]

    def labels_of(self, index: int) -> np.ndarray:
        """Return the labels of an image."""
        return np.asarray(self.labels[index].reshape(-1))


class ImageList(_Classified):
    """Images in the order of the list.

    Args:
        path: The list. A name that ends in ``.lst`` is MXNet's (number, labels and file, with tabs between),
            any other is Caffe's (file and label, the last space between).
        root_folder: Put before each file's name as it is, as Caffe does.
        base: The folder that relative names are in; absolute names and URLs stay as they are.
        color: How images are decoded.
        urls: URLs that the list may name, or beginnings of them; None for any.

    Raises:
        ReadError: The list is missing, empty, or has a line of another kind.
        UsageError: It names a URL that is not among ``urls``.
    """

    def __init__(
        self,
        path: str,
        root_folder: str = "",
        base: str = "",
        color: str = "bgr",
        urls: Sequence[str] | None = None,
    ) -> None:
        lines = list(_mxnet_lines(path) if path.endswith(".lst") else _caffe_lines(path))
        if not lines:
            raise ReadError("lists no images", place=path)
        widths = sorted({len(labels) for _, labels in lines})
        if len(widths) > 1:
            raise ReadError(f"has lines with {widths} labels, expected the same number", place=path)
        files = [join(base, root_folder + name) for name, _ in lines]
        for file in files if urls is not None else ():
            require_allowed(file, urls or (), path)
        super().__init__(path, color, files, [labels for _, labels in lines])


class ImageFolder(_Classified):
    """Images of a folder's folders, which are the classes, in alphabetical order.

    Args:
        path: The folder.
        color: How images are decoded.

    Attributes:
        classes: Names of the classes; the label of an image is the number of its class.

    Raises:
        ReadError: There is no such folder, or it has no images in folders.
    """

    def __init__(self, path: str, color: str = "bgr") -> None:
        folder = Path(path)
        if not folder.is_dir():
            raise ReadError("there is no such folder", place=path)
        self.classes = sorted(inner.name for inner in folder.iterdir() if inner.is_dir())
        found = [
            (str(file), [float(label)])
            for label, name in enumerate(self.classes)
            for file in sorted((folder / name).rglob("*"))
            if file.suffix.lower() in SUFFIXES
        ]
        if not found:
            raise ReadError("has no subfolders with images, expected one per class", place=path)
        super().__init__(path, color, [name for name, _ in found], [labels for _, labels in found])


def _caffe_lines(path: str) -> Iterator[tuple[str, list[float]]]:
    for number, line in lines_of(path):
        name, _space, label = line.rstrip().rpartition(" ")
        try:
            yield name, [float(label)]
        except ValueError as error:
            message = f"found {line!r}, expected a file, a space and a label"
            raise ReadError(message, place=f"{path}:{number}") from error


def _mxnet_lines(path: str) -> Iterator[tuple[str, list[float]]]:
    for number, line in lines_of(path):
        fields = line.rstrip("\n").split("\t")
        try:
            int(fields[0])
            yield fields[-1], [float(label) for label in fields[1:-1]]
        except ValueError as error:
            message = f"found {line!r}, expected number, labels and file, with tabs between"
            raise ReadError(message, place=f"{path}:{number}") from error
