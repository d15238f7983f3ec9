"""Lists of images for detectors, and where the labels of an image are: Darknet's ways, and Pascal VOC's.

A list has the path of an image on each line; its labels are in a text beside it, or in the folder ``labels``
instead of ``images`` (``fill_truth_detection``), or in VOC's ``Annotations``. A list in VOC's ``ImageSets``
has names without folder and suffix.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from netweave.errors import ReadError
from netweave.files.source import is_file, is_folder, read_bytes

SUFFIXES = {".jpg", ".jpeg", ".png", ".bmp", ".ppm", ".pgm", ".tif", ".tiff", ".webp"}
"""What is taken for an image in a folder."""

LABEL_FOLDERS = ("images", "JPEGImages", "raw")
"""Folders of images for which Darknet looks for labels in the folder ``labels``."""


def image_files(path: Path, root: Path) -> list[Path]:
    """Return the images of a list or a folder.

    Raises:
        ReadError: There are none, or there is no such list.
    """
    if is_folder(path):
        files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    elif path.parent.parent.name == "ImageSets":
        folder = path.parent.parent.parent / "JPEGImages"
        files = [_of_name(folder, words) for line in _lines(path) if _is_in(words := line.split())]
    else:
        lines = _lines(path)
        folder = _folder_of(lines, path, root)
        files = [folder / line for line in lines]
    if not files:
        raise ReadError("lists no images", place=str(path))
    return files


def _is_in(words: Sequence[str]) -> bool:
    """Return whether a line of an image set names an image in the set.

    Lists of one class mark the others by -1.
    """
    return words[-1] != "-1" or len(words) == 1


def _of_name(folder: Path, words: Sequence[str]) -> Path:
    candidates = (folder / f"{words[0]}{suffix}" for suffix in sorted(SUFFIXES))
    return next((file for file in candidates if is_file(file)), folder / f"{words[0]}.jpg")


def _folder_of(lines: Sequence[str], path: Path, root: Path) -> Path:
    """Return the folder that names in a list are relative to: the root, the working one, or one above it."""
    folders = (root, Path(), *path.absolute().parents)
    return next((folder for folder in folders if lines and is_file(folder / lines[0])), root)


def darknet_labels(image: Path) -> Path:
    """Return where Darknet looks for the labels of an image."""
    parts = ["labels" if part in LABEL_FOLDERS else part for part in image.parts[:-1]]
    return Path(*parts, image.with_suffix(".txt").name)


def voc_labels(image: Path) -> Path:
    """Return where the labels of an image are in VOC's form."""
    return image.parent.parent / "Annotations" / image.with_suffix(".xml").name


def label_file(image: Path) -> Path | None:
    """Return the file with the labels of an image; None if there is none."""
    places = (darknet_labels(image), voc_labels(image), image.with_suffix(".txt"))
    return next((file for file in places if is_file(file)), None)


def _lines(path: Path) -> list[str]:
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text: byte {error.start} is not UTF-8", place=str(path)) from error
    if "\0" in text:
        raise ReadError("is not text: it contains NUL", place=str(path))
    return [line.strip() for line in text.splitlines() if line.strip()]
