"""Sources by what a user types: a file or folder, whose name says of which kind it is."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netweave.errors import UsageError
from netweave.files.zipped import zip_errors
from netweave.job import DataSource
from netweave.training.data.kvfile import MAX_KEY_BYTES, SHARD, is_kvfile
from netweave.training.data.location import local_copy
from netweave.training.data.source import SOURCES, Source, open_source

SUFFIXES = {
    ".rec": "recordio",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".npz": "numpy",
    ".npy": "numpy",
    ".csv": "csv",
    ".lst": "images",
    ".txt": "images",
    ".bin": "cifar",
    ".mdb": "lmdb",
    ".kvfile": "kvfile",
}
"""Kinds by the end of a file's name."""


@dataclass(frozen=True, slots=True)
class Named:
    """Options of a data source besides its name.

    Attributes:
        labels: A file of labels: idx, ``.npy``, ``.csv``, or the ``.lst`` of a ``.rec``.
        root: The folder that names in a list are relative to; None for that of the list.
        shape: Sizes of a record, for rows of numbers.
        color: How images are decoded; None for the kind's own.
    """

    labels: str | None = None
    root: str | None = None
    shape: tuple[int, ...] = ()
    color: str | None = None


def kind_of(name: str) -> str:
    """Return the kind of a file or folder by its name, and of a folder by what is in it.

    Raises:
        UsageError: The name does not tell.
    """
    bare = name.removesuffix(".gz")
    path = Path(bare)
    if "idx3-ubyte" in path.name or "idx1-ubyte" in path.name:
        return "mnist"
    if path.suffix == ".bin" and path.is_file() and _is_kvfile(path):
        return "kvfile"  # SINGA's examples call theirs train_data.bin, as CIFAR's files are called
    if path.suffix in SUFFIXES:
        return SUFFIXES[path.suffix]
    if path.is_dir():
        if (path / SHARD).exists():
            return "kvfile"
        return "lmdb" if (path / "data.mdb").exists() or (path / "CURRENT").exists() else "folder"
    if "://" in name or not path.exists():
        return "lmdb"  # whose opening says that it is not there
    raise UsageError(f"{name}: its name does not tell its kind; give one of {', '.join(SETTINGS)}")


def _is_kvfile(path: Path) -> bool:
    with path.open("rb") as file:
        return is_kvfile(file.read(MAX_KEY_BYTES), path.stat().st_size)


def open_named(name: str, kind: str | None = None, said: Named | None = None) -> Source:
    """Open what a user names.

    Args:
        name: A file or folder; ``s3://...`` and the like by fsspec; commas between files
            of CIFAR.
        kind: One of ``SETTINGS``; None to go by the name.
        said: What else is said of it.

    Raises:
        UsageError: The kind is unknown, or more must be said.
        ReadError: There is no such file, or it is of another kind.
    """
    kind = kind or kind_of(name)
    if kind not in SETTINGS:
        raise UsageError(f"{name}: unknown kind of data {kind!r}; expected one of {', '.join(SETTINGS)}")
    settings = SETTINGS[kind](name, said or Named())
    return open_source(DataSource(kind, (), 1, {key: value for key, value in settings.items() if value}))


def _images(name: str, said: Named) -> dict[str, Any]:
    base = name.rpartition("/")[0] if said.root is None else said.root
    return {"path": name, "base": base, "color": said.color}


def _hdf5(name: str, said: Named) -> dict[str, Any]:
    return {"path": name, "datasets": ["data", "label"]}


def _mnist(name: str, said: Named) -> dict[str, Any]:
    head, slash, last = name.rpartition("/")
    label = said.labels or head + slash + last.replace("images", "labels").replace("idx3", "idx1")
    return {"image": name, "label": label}


def _csv(name: str, said: Named) -> dict[str, Any]:
    if not said.shape:
        raise UsageError(f"{name}: give the shape of a record, such as --shape 3x32x32")
    return {"data": name, "data_shape": said.shape, "label": said.labels}


def _numpy(name: str, said: Named) -> dict[str, Any]:
    if not name.endswith(".npz"):
        if not said.labels:
            raise UsageError(f"{name}: holds one array; give the file of the labels: --labels FILE.npy")
        return {"paths": [name, said.labels]}
    return {"paths": [name], "names": _names_in(name)}


def _names_in(name: str) -> Sequence[str]:
    """Return the arrays of an ``.npz`` that hold images and labels, by the usual names; none for all."""
    with zip_errors(name, "a complete .npz file of arrays"), zipfile.ZipFile(local_copy(name)) as archive:
        there = {member.removesuffix(".npy") for member in archive.namelist()}
    for data, label in (("data", "label"), ("x", "y"), ("images", "labels"), ("X", "y")):
        if {data, label} <= there:
            return (data, label)
    return ()


SETTINGS: dict[str, Callable[[str, Named], dict[str, Any]]] = {
    "lmdb": lambda name, said: {"path": name, "color": said.color},
    "recordio": lambda name, said: {"path": name, "labels": said.labels, "color": said.color},
    "folder": lambda name, said: {"path": name, "color": said.color},
    "images": _images,
    "hdf5": _hdf5,
    "mnist": _mnist,
    "cifar": lambda name, said: {"paths": name.split(",")},
    "csv": _csv,
    "kvfile": lambda name, said: {"path": name, "shape": said.shape},
    "textfile": lambda name, said: {"path": name, "shape": said.shape},
    "numpy": _numpy,
}
"""The kinds that a name can be opened as, with the settings that follow from it; rows of ``SOURCES``."""

assert SETTINGS.keys() <= SOURCES.keys()
