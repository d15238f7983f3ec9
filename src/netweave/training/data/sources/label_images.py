"""Images with the class of each pixel, which is the value of a pixel of another image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from netweave.errors import ReadError
from netweave.files.image_lists import SUFFIXES
from netweave.job import require_allowed
from netweave.runtime.images.decode import decode, label_pixels
from netweave.training.data.location import join, lines_of, read_file
from netweave.training.data.source import Record
from netweave.training.data.sources.images import ImageFiles, base_of

FOLDERS = (("JPEGImages", "SegmentationClassAug"), ("JPEGImages", "SegmentationClass"), ("images", "labels"))
"""Folders of images and of label images beside each other: Pascal VOC's, and others'."""


class LabelImages(ImageFiles):
    """Images and label images of a list, or of a folder.

    Args:
        path: The list: an image and its label image a line, a space between. Or a folder with one of
            ``FOLDERS``, in which an image and its label image have one name, but for its ending.
        root_folder: Put before each file's name as it is.
        base: The folder that relative names are in.
        color: How images are decoded.
        urls: URLs that the list may name, or beginnings of them; None for any.

    Raises:
        ReadError: The list is missing, empty, or has a line of another kind.
        UsageError: It names a URL that is not among ``urls``.
    """

    pixel_labels = True

    def __init__(
        self,
        path: str,
        root_folder: str = "",
        base: str = "",
        color: str = "bgr",
        urls: Sequence[str] | None = None,
    ) -> None:
        pairs = list(_of_folder(Path(path)) if Path(path).is_dir() else _of_list(path))
        if not pairs:
            raise ReadError("lists no images", place=path)
        base = base_of(path, root_folder, base, pairs[0][0])
        pairs = [
            (join(base, root_folder + image), join(base, root_folder + labels)) for image, labels in pairs
        ]
        for file in (file for pair in pairs for file in pair) if urls is not None else ():
            require_allowed(file, urls or (), path)
        super().__init__(path, color, [image for image, _ in pairs])
        self._label_files = [labels for _, labels in pairs]

    def parse(self, index: int, fetched: bytes) -> Record:
        """Return pixels and their classes."""
        pixels = decode(fetched, self._color, lambda: self.describe(index))
        file = self._label_files[index]
        classes = label_pixels(read_file(file), lambda: f"{self.place}: record {index} ({file})")
        if classes.shape[:2] != pixels.shape[:2]:
            found, expected = (f"{one.shape[0]} x {one.shape[1]}" for one in (classes, pixels))
            raise ReadError(
                f"its label image {file} is {found}, the image {expected}", place=self.describe(index)
            )
        return pixels, classes

    def labels_of(self, index: int) -> np.ndarray:
        """Return the classes of an image in one row."""
        return np.asarray(self.read(index)[1], np.float32).reshape(-1)


def _of_list(path: str) -> list[tuple[str, str]]:
    pairs = []
    for number, line in lines_of(path):
        names = line.split()
        if len(names) != 2:
            message = f"found {line.strip()!r:.80}, expected two files: an image, a space and its label image"
            raise ReadError(message, place=f"{path}:{number}")
        pairs.append((names[0], names[1]))
    return pairs


def _of_folder(folder: Path) -> list[tuple[str, str]]:
    for images, labels in FOLDERS:
        if (folder / images).is_dir() and (folder / labels).is_dir():
            found = {
                file.stem: file for file in (folder / images).iterdir() if file.suffix.lower() in SUFFIXES
            }
            return [
                (str(found[file.stem].absolute()), str(file.absolute()))
                for file in sorted((folder / labels).iterdir())
                if file.stem in found
            ]
    names = ", or ".join(" and ".join(pair) for pair in FOLDERS)
    raise ReadError(f"has no folders of images and label images, expected {names}", place=str(folder))
