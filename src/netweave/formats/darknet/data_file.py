"""Images for a detector: Darknet's ``.data`` file, or a folder in the form of Pascal VOC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UsageError
from netweave.files import read_bytes
from netweave.files.source import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEYS = {"train", "valid", "names", "labels", "classes", "backup", "results", "eval", "top", "map"}

_SETS = {"train": ("trainval.txt", "train.txt"), "valid": ("test.txt", "val.txt")}
"""Lists of VOC's ``ImageSets/Main``, the first that there is."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A ``.data`` file: the paths of images and class names.

    Attributes:
        place: The file or folder.
        root: Folder that names of images in lists are relative to.
        train: List of the images to train on; None if there is none.
        valid: List of the images to test on; None if there is none.
        names: Names of the classes; empty where nothing says.
        classes: How many classes there are; 0 where nothing says.
        backup: Folder for weights; None where nothing says.
    """

    place: str
    root: Path
    train: Path | None
    valid: Path | None
    names: tuple[str, ...] = ()
    classes: int = 0
    backup: Path | None = None


def read_data_file(path: Path) -> DataFile:
    """Read a ``.data`` file, or look into a folder in the form of Pascal VOC.

    Names in a ``.data`` file are relative to the working folder or, where that has no such list, to the
    nearest folder above the file that has it.

    Raises:
        ReadError: It cannot be read, or is neither.
    """
    return _voc_folder(path) if is_folder(path) else _data_file(path)


def with_lists(given: Mapping[str, str]) -> DataFile:
    """Return where images are by what the caller gives: by phase, or a file or folder under ``""``.

    Raises:
        UsageError: A phase is not one of Darknet's, or there is nothing to train on.
        ReadError: The file or folder cannot be read.
    """
    unknown = [phase for phase in given if phase not in {"", "train", "test"}]
    if unknown:
        raise UsageError(f"data is given for phase {unknown[0]!r}; expected train or test, or a .data file")
    whole = read_data_file(Path(given[""])) if "" in given else DataFile("", Path(), None, None)
    lists = {
        name: Path(given[phase]) if phase in given else getattr(whole, name)
        for name, phase in (("train", "train"), ("valid", "test"))
    }
    return DataFile(
        whole.place or given.get("train", ""),
        whole.root,
        lists["train"],
        lists["valid"],
        whole.names,
        whole.classes,
        whole.backup,
    )


def _data_file(path: Path) -> DataFile:
    """Parse ``read_data_cfg``'s file: a name, an equals sign and a value on each line; blanks are dropped."""
    settings: dict[str, str] = {}
    for number, line in _lines(path):
        name, equals, value = line.partition("=")
        if not equals or not name or not value:
            raise ReadError(f"{line!r:.60} is not a setting; expected name=value", place=f"{path}:{number}")
        if name not in _KEYS:
            known = ", ".join(sorted(_KEYS))
            raise ReadError(f"unknown setting {name!r}; expected one of {known}", place=f"{path}:{number}")
        settings.setdefault(name, value)
    lists = [settings[name] for name in ("train", "valid", "names", "labels") if name in settings]
    if not {"train", "valid"} & settings.keys():
        raise ReadError("has neither train= nor valid=, expected a list of images", place=str(path))
    root = _root(path, lists)
    train, valid = (root / settings[name] if name in settings else None for name in ("train", "valid"))
    names = settings.get("names") or settings.get("labels")
    count = settings.get("classes", "0")
    if not re.fullmatch(r"\d{1,6}", count):
        raise ReadError(f"classes is {count!r}, expected an integer", place=str(path))
    return DataFile(
        place=str(path),
        root=root,
        train=train,
        valid=valid,
        names=_names(root / names) if names else (),
        classes=int(count),
        backup=root / settings["backup"] if "backup" in settings else None,
    )


def _root(path: Path, lists: list[str]) -> Path:
    """Return the folder that names are relative to: the working one, or one above the file."""
    folders = (Path(), *path.absolute().parents)
    return next((folder for folder in folders if any((folder / name).exists() for name in lists)), Path())


def _voc_folder(folder: Path) -> DataFile:
    sets, lists = folder / "ImageSets" / "Main", {}
    if not sets.is_dir() or not (folder / "JPEGImages").is_dir():
        raise ReadError(
            "has no ImageSets/Main or no JPEGImages, expected both, and Annotations, as in Pascal VOC",
            place=str(folder),
        )
    for name, files in _SETS.items():
        lists[name] = next((sets / file for file in files if (sets / file).is_file()), None)
    if lists["train"] is None and lists["valid"] is None:
        wanted = ", ".join(file for files in _SETS.values() for file in files)
        raise ReadError(f"has no list in ImageSets/Main, expected one of {wanted}", place=str(folder))
    if lists["train"] is not None and lists["train"].name == "trainval.txt" and lists["valid"] is not None:
        lists["train"] = _without_the_tested(sets, lists["valid"]) or lists["train"]
    names = next((file for file in sorted(folder.glob("*.names"))), None)
    return DataFile(
        place=str(folder),
        root=folder,
        train=lists["train"],
        valid=lists["valid"],
        names=_names(names) if names else (),
    )


def _without_the_tested(sets: Path, valid: Path) -> Path | None:
    """Return the list that does not hold the images of the test, where ``trainval`` does."""
    alone = sets / "train.txt"
    return alone if valid.name == "val.txt" and alone.is_file() else None


def _names(path: Path) -> tuple[str, ...]:
    return tuple(line for _, line in _lines(path, blanks=True))


def _lines(path: Path, *, blanks: bool = False) -> list[tuple[int, str]]:
    """Return the lines that say something, with their numbers; without blanks in them unless told."""
    try:
        text = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ReadError(f"is not text: byte {error.start} is not UTF-8", place=str(path)) from error
    lines = [
        (number, line.strip() if blanks else re.sub(r"\s", "", line))
        for number, line in enumerate(text.splitlines(), 1)
    ]
    return [(number, line) for number, line in lines if line and (blanks or line[0] not in "#;")]
