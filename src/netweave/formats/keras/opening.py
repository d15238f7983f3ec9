"""Finding out what kind of file it is, and opening it: an archive, HDF5, or JSON beside HDF5."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError
from netweave.files import Source
from netweave.files.decompression_limit import check_expansion
from netweave.files.hdf5 import HDF5_MAGIC, Group, read_hdf5
from netweave.files.json_text import parse_json
from netweave.files.npy import read_npz
from netweave.files.source import is_folder, read_bytes
from netweave.files.zipped import read_member, zip_errors
from netweave.formats.keras.code import is_code
from netweave.formats.keras.weights import Weights

ZIP_MAGIC = b"PK\x03\x04"
CONFIG = "config.json"
ARRAYS = "model.weights.h5"
OPERANDS = "operands.npz"
"""The member of an archive that holds the arrays its operations read; ``functional.py`` adds it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A model as its files hold it.

    Attributes:
        description: The configuration, as JSON values.
        weights: Its arrays; None where no file gives them.
        files: The files.
        arrays: Arrays that operations read, by the names that the configuration has for them.
    """

    description: Any
    weights: Weights | None
    files: tuple[str, ...]
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def open_weights(path: Path) -> Weights:
    """Open a file of arrays alone.

    Raises:
        ReadError: It cannot be read or is damaged.
    """
    read_bytes_head(path)
    return Weights(_read(path, str(path)), str(path))


def match(source: Source) -> bool:
    """Return whether the file is a model of Keras, by what it holds, or code that makes one."""
    if is_code(source.net):
        return True
    if is_folder(source.net):
        return False
    head = source.head()
    if head.startswith(ZIP_MAGIC):
        return _names(source.net) >= {CONFIG, ARRAYS}
    if head.startswith(HDF5_MAGIC):
        return True
    return head.lstrip()[:1] == b"{" and b'"class_name"' in head


def open_model(source: Source) -> Opened:
    """Open a model.

    Raises:
        ReadError: A file cannot be read or is damaged.
    """
    head = source.head()
    if head.startswith(ZIP_MAGIC):
        return _archive(source)
    if head.startswith(HDF5_MAGIC):
        return _hdf5(source)
    description = _json(read_bytes(source.net), str(source.net))
    return Opened(description, *_beside(source))


def _archive(source: Source) -> Opened:
    place = str(source.net)
    with zip_errors(place, "a complete Keras archive"), zipfile.ZipFile(source.net) as archive:
        description = _json(_member(archive, CONFIG, place), place)
        weights = None if source.weights else _member(archive, ARRAYS, place)
        held = _member(archive, OPERANDS, place) if OPERANDS in archive.namelist() else None
    arrays = {} if held is None else read_npz(held, place=f"{place}: {OPERANDS!r}")
    if weights is None:
        return Opened(description, *_beside(source), arrays)
    return Opened(description, Weights(_read(weights, place), place), (place,), arrays)


def _read(content: Path | bytes, place: str) -> Group:
    """Return the groups of an HDF5 file, from that of the weights on."""
    file = read_hdf5(content, place=place, extra="tensorflow")
    return file.group("model_weights") or file


def _member(archive: zipfile.ZipFile, name: str, place: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError as error:
        raise ReadError(f"is not a Keras archive: it has no {name!r}", place=place) from error
    check_expansion(entry.file_size, entry.compress_size, place=f"{place}: {name!r}")
    return read_member(archive, entry)


def _hdf5(source: Source) -> Opened:
    place = str(source.net)
    file = read_hdf5(source.net, place=place, extra="tensorflow")
    held = file.attributes.get("model_config")
    if not isinstance(held, str):
        raise ReadError(
            "contains only arrays; put the configuration of the model (model.to_json()) first, as in "
            f"model.json,{source.net.name}",
            place=place,
        )
    description = _json(held.encode("utf-8", "surrogateescape"), place)
    if source.weights:
        return Opened(description, *_beside(source))
    return Opened(description, Weights(file.group("model_weights") or file, place), (place,))


def _beside(source: Source) -> tuple[Weights | None, tuple[str, ...]]:
    """Return the arrays that the caller named, or that lie beside a configuration under its name."""
    path = source.weights
    if path is None:
        stem = source.net.name.removesuffix(".json").removesuffix(".config")
        names = (f"{stem}.weights.h5", f"{stem}_weights.h5", f"{stem}.h5")
        path = next((p for name in names if (p := source.net.with_name(name)).is_file()), None)
    if path is None:
        return None, (str(source.net),)
    read_bytes_head(path)
    return Weights(_read(path, str(path)), str(path)), (str(source.net), str(path))


def read_bytes_head(path: Path) -> None:
    """Raise ``ReadError`` if a file of arrays is missing or no HDF5."""
    from netweave.files.source import Source

    if not Source(path).head(8).startswith(HDF5_MAGIC):
        raise ReadError("is not an HDF5 file, expected the arrays of a Keras model", place=str(path))


def _json(content: bytes, place: str) -> Any:
    return parse_json(content, file=f"{place}: the configuration of the model", allow_nan=True)


def _names(path: Path) -> set[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return set()
