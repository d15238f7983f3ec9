"""Finding out what kind of file it is, and opening it: an archive, HDF5, or JSON beside HDF5."""

from __future__ import annotations

import io
import json
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netweave.errors import ReadError, UsageError
from netweave.files.source import is_folder, read_bytes
from netweave.formats.keras.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from netweave.files import Source

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
ZIP_MAGIC = b"PK\x03\x04"
CONFIG = "config.json"
ARRAYS = "model.weights.h5"
MAX_CONFIG = 64 << 20
MAX_ARRAYS = 8 << 30


@dataclass(frozen=True, slots=True)
class Opened:
    """A model as its files hold it.

    Attributes:
        description: The configuration, as JSON values.
        weights: Its arrays; None where no file gives them.
        files: The files.
    """

    description: Any
    weights: Weights | None
    files: tuple[str, ...]


def is_ours(source: Source) -> bool:
    """Whether a file is a model of Keras, by what it holds."""
    if is_folder(source.net):
        return False
    head = source.head()
    if head.startswith(ZIP_MAGIC):
        return _names(source.net) >= {CONFIG, ARRAYS}
    if head.startswith(HDF5_MAGIC):
        return True
    return head.lstrip()[:1] == b"{" and b'"class_name"' in head


@contextmanager
def open_model(source: Source) -> Iterator[Opened]:
    """Open a model; its arrays can be read as long as it is open.

    Raises:
        ReadError: A file cannot be read or is damaged.
    """
    head = source.head()
    with _Files() as files:
        if head.startswith(ZIP_MAGIC):
            yield _archive(files, source)
        elif head.startswith(HDF5_MAGIC):
            yield _hdf5(files, source)
        else:
            description = _json(read_bytes(source.net), str(source.net))
            yield Opened(description, *_beside(files, source))


class _Files:
    """HDF5 files that are open."""

    def __init__(self) -> None:
        self._open: list[Any] = []

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open:
            file.close()

    def hdf5(self, path: Path | io.BytesIO, place: str) -> Any:
        """Return an HDF5 file."""
        try:
            import h5py
        except ImportError as error:
            raise UsageError(
                "models of Keras are HDF5, which needs h5py: pip install 'netweave[tensorflow]'"
            ) from error
        try:
            self._open.append(h5py.File(path, "r"))
        except (OSError, RuntimeError, ValueError) as error:
            raise ReadError(f"is no whole HDF5 file: {error!s:.100}", place=place) from error
        return self._open[-1]


def _archive(files: _Files, source: Source) -> Opened:
    place = str(source.net)
    try:
        with zipfile.ZipFile(source.net) as archive:
            description = _json(_member(archive, CONFIG, MAX_CONFIG, place), place)
            arrays = None if source.weights else _member(archive, ARRAYS, MAX_ARRAYS, place)
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise ReadError(f"is no whole archive of Keras: {error!s:.100}", place=place) from error
    if arrays is None:
        return Opened(description, *_beside(files, source))
    group = files.hdf5(io.BytesIO(arrays), place)
    return Opened(description, Weights(group, place), (place,))


def _member(archive: zipfile.ZipFile, name: str, limit: int, place: str) -> bytes:
    try:
        entry = archive.getinfo(name)
    except KeyError as error:
        raise ReadError(
            f"is an archive without {name!r}, which every model of Keras has", place=place
        ) from error
    if entry.file_size > limit or entry.file_size > 1000 * max(entry.compress_size, 1):
        raise ReadError(
            f"{name!r} would have {entry.file_size:,} bytes, from {entry.compress_size:,}", place=place
        )
    import zlib

    try:
        return archive.read(entry)
    except zlib.error as error:
        raise ReadError(f"{name!r} is damaged: {error}", place=place) from error


def _hdf5(files: _Files, source: Source) -> Opened:
    place = str(source.net)
    file = files.hdf5(source.net, place)
    held = file.attrs.get("model_config")
    if held is None:
        raise ReadError(
            "holds arrays and no model; name the model's configuration first (model.to_json()), as in "
            f"model.json,{source.net.name}",
            place=place,
        )
    description = _json(held if isinstance(held, bytes) else str(held).encode(), place)
    if source.weights:
        return Opened(description, *_beside(files, source))
    group = file.get("model_weights", file)
    return Opened(description, Weights(group, place), (place,))


def _beside(files: _Files, source: Source) -> tuple[Weights | None, tuple[str, ...]]:
    """Return the arrays that the caller named, or that lie beside a configuration under its name."""
    path = source.weights
    if path is None:
        stem = source.net.name.removesuffix(".json").removesuffix(".config")
        names = (f"{stem}.weights.h5", f"{stem}_weights.h5", f"{stem}.h5")
        path = next((p for name in names if (p := source.net.with_name(name)).is_file()), None)
    if path is None:
        return None, (str(source.net),)
    read_bytes_head(path)
    file = files.hdf5(path, str(path))
    group = file.get("model_weights", file)
    return Weights(group, str(path)), (str(source.net), str(path))


def read_bytes_head(path: Path) -> None:
    """Raise ``ReadError`` if a file of arrays is missing or no HDF5."""
    from netweave.files.source import Source

    if not Source(path).head(8).startswith(HDF5_MAGIC):
        raise ReadError("is no HDF5 file, which the arrays of Keras are", place=str(path))


def _json(content: bytes, place: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"the configuration of the model is no JSON: {error!s:.100}", place=place) from error


def _names(path: Path) -> set[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return set(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return set()
