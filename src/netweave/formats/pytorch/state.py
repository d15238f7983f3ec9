"""States of PyTorch's modules."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError
from netweave.files import read_bytes
from netweave.files.pickles import Name, Persistent, PickledCall, describe, read_pickled
from netweave.files.safetensors import read_safetensors
from netweave.files.zipped import read_member, zip_errors
from netweave.graph.costs import num_elements

# Both containers of ``torch.save``: the zip archive (since 1.6) and, before it, pickles one after another
# (torch/serialization.py ``_save``, ``_legacy_save``).

LEGACY_HEAD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
"""Begin of a file of the time before archives: its magic number, pickled."""

DTYPES: dict[str, np.dtype[Any]] = {
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "BoolStorage": np.dtype(np.bool_),
    "ByteStorage": np.dtype(np.uint8),
    "CharStorage": np.dtype(np.int8),
    "DoubleStorage": np.dtype(np.float64),
    "FloatStorage": np.dtype(np.float32),
    "HalfStorage": np.dtype(np.float16),
    "IntStorage": np.dtype(np.int32),
    "LongStorage": np.dtype(np.int64),
    "ShortStorage": np.dtype(np.int16),
}
"""Element type by the storage's class in ``torch``."""

DICTS = {Name("collections", "OrderedDict"), Name("builtins", "dict")}

_TENSORS = {"torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2"}
_PARAMETERS = {"torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state"}

NESTED = ("state_dict", "model_state_dict", "model", "net", "params")
"""Under which of these keys a training checkpoint holds its state dict; looked for in this order."""


@dataclass(frozen=True, slots=True)
class _File:
    """A container taken apart.

    Attributes:
        root: What its pickle describes.
        storages: Bytes of each storage, by key.
        place: The file, for messages.
    """

    root: Any
    storages: Mapping[str, bytes]
    place: str


def is_legacy(head: bytes) -> bool:
    """Return whether a file begins as ``torch.save`` wrote before archives."""
    return head.startswith(LEGACY_HEAD)


def read_state(path: Path, *, place: str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a state dict by name, in the file's order.

    Args:
        path: The file.
        place: What errors call it; its path by default.

    Raises:
        ReadError: The file is damaged.
        UnsupportedError: It holds something else than arrays by name.
    """
    place = place or str(path)
    if path.suffix == ".safetensors":
        return read_safetensors(path, place=place)
    file = _opened(path, place)
    items = _named(file.root)
    if items is None:
        raise UnsupportedError(
            f"holds {_describe(file.root)}, expected a state dict; a pickled object is never opened: "
            "save model.state_dict() and name the .py file of the model before it (model.py,weights.pt)",
            place=place,
        )
    return {name: _array(value, file, name) for name, value in items.items() if _is_tensor(value)}


def read_tensors(path: Path) -> dict[str, np.ndarray]:
    """Return all tensors of a file by their keys and places in it; one alone has an empty name.

    Raises:
        ReadError: The file is damaged.
    """
    file = _opened(path, str(path))
    return {name: _array(value, file, name) for name, value in _tensors_in(file.root, "")}


def _tensors_in(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    items = _entries(value)
    if items is None and isinstance(value, list | tuple):
        items = {str(index): item for index, item in enumerate(value)}
    if _is_tensor(value):
        yield name, value
    for key, item in (items or {}).items():
        yield from _tensors_in(item, f"{name}.{key}" if name else key)


def _opened(path: Path, place: str) -> _File:
    content = read_bytes(path)
    return _legacy(content, place) if is_legacy(content) else _archive(content, place)


def _archive(content: bytes, place: str) -> _File:
    with zip_errors(place), zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
        if len(names) != 1:
            raise ReadError("is not a PyTorch archive: data.pkl is missing", place=place)
        folder = names[0].removesuffix("data.pkl")
        _check_plain(archive, len(content), place)
        order = folder + "byteorder"
        if order in archive.namelist() and read_member(archive, order) != b"little":
            raise UnsupportedError("was written on a big-endian machine", place=place)
        root = read_pickled(io.BytesIO(read_member(archive, names[0])), place=place)
        data = folder + "data/"
        storages = {
            name.removeprefix(data): read_member(archive, name)
            for name in archive.namelist()
            if name.startswith(data)
        }
    return _File(root, storages, place)


def _check_plain(archive: zipfile.ZipFile, num_bytes: int, place: str) -> None:
    """``torch.save`` never compresses, so that the parts together are no larger than the file."""
    if sum(info.file_size for info in archive.infolist()) > num_bytes:
        raise UnsupportedError(
            "its parts are compressed or overlap, which torch.save never does", place=place
        )


def _legacy(content: bytes, place: str) -> _File:
    file = io.BytesIO(content)
    _, _, _, root, keys = (read_pickled(file, place=place) for _ in range(5))
    sizes = dict(_storage_sizes(root))
    storages = {}
    for key in keys if isinstance(keys, list) else []:
        head = file.read(8)
        if not isinstance(key, str) or key not in sizes or len(head) < 8:
            raise ReadError(f"storage {describe(key)} is missing or truncated", place=place)
        count = struct.unpack("<q", head)[0]
        if not 0 <= count <= len(content):
            raise ReadError(f"storage {describe(key)} would have {count:,} elements", place=place)
        storages[key] = file.read(count * sizes[key])
    return _File(root, storages, place)


def _storage_sizes(root: Any) -> list[tuple[str, int]]:
    """Return key and element size of each storage that the tensors of a dict read."""
    sizes = []
    for value in (_named(root) or {}).values():
        storage = _tensor_call(value)
        if storage is not None:
            key, dtype = _storage(storage[0])
            sizes.append((key, dtype.itemsize))
    return sizes


def _named(root: Any) -> dict[str, Any] | None:
    """Return the entries of the state dict that a file's root is or holds."""
    items = _entries(root)
    if items is None:
        return None
    if any(_is_tensor(value) for value in items.values()):
        return items
    for key in NESTED:
        if (inner := _entries(items.get(key))) is not None:
            return inner
    return items if not items else None


def _entries(value: Any) -> dict[str, Any] | None:
    if isinstance(value, PickledCall) and isinstance(value.function, Name) and value.function in DICTS:
        value = None if value.arguments else dict(value.items)
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        return None
    return value


def _is_tensor(value: Any) -> bool:
    return _tensor_call(value) is not None


def _tensor_call(value: Any) -> tuple[Any, ...] | None:
    """Return (storage, offset, sizes, strides, ...) of a tensor or parameter; None if it is neither."""
    while (
        isinstance(value, PickledCall)
        and isinstance(value.function, Name)
        and isinstance(value.arguments, tuple)
    ):
        name = str(value.function)
        if name in _TENSORS:
            return value.arguments if len(value.arguments) >= 4 else None
        if name not in _PARAMETERS or not value.arguments:
            return None
        value = value.arguments[0]
    return None


def _storage(value: Any) -> tuple[str, np.dtype[Any]]:
    """Return key and element type of ``("storage", class, key, location, size)``."""
    if isinstance(value, Persistent) and isinstance(value.id, tuple) and len(value.id) >= 5:
        kind, key = value.id[1:3]
        if not isinstance(key, str):
            raise ReadError(f"a tensor has a storage named {describe(key)}, expected a string")
        if isinstance(kind, Name) and kind.module == "torch" and kind.name in DTYPES:
            return key, DTYPES[kind.name]
        raise UnsupportedError(f"arrays of {describe(kind)} are not supported")
    raise ReadError("a tensor has no storage")


def _array(value: Any, file: _File, name: str) -> np.ndarray:
    call = _tensor_call(value)
    assert call is not None
    place = f"{file.place}: {name!r}"
    try:
        key, dtype = _storage(call[0])
    except (ReadError, UnsupportedError) as error:
        raise type(error)(error.message, place=place) from error
    offset, sizes, strides = call[1], call[2], call[3]
    numbers = (offset, *sizes, *strides) if isinstance(sizes, tuple) and isinstance(strides, tuple) else ()
    if not numbers or not all(type(n) is int and 0 <= n < 2**48 for n in numbers):
        raise ReadError("its sizes are not numbers", place=place)
    if key not in file.storages or len(sizes) != len(strides):
        raise ReadError(f"its storage {describe(key)} is not in the file", place=place)
    count = num_elements(sizes)
    if count is None:
        raise ReadError("has invalid sizes", place=place)
    stored = file.storages[key]
    last = offset + sum((size - 1) * step for size, step in zip(sizes, strides, strict=True))
    if count and max(last + 1, count) * dtype.itemsize > len(stored):
        raise ReadError(
            f"its storage has {len(stored):,} bytes, expected {(last + 1) * dtype.itemsize:,}; was the file "
            "copied or downloaded whole?",
            place=place,
        )
    flat = np.frombuffer(stored, dtype, count=len(stored) // dtype.itemsize)
    steps = [step * dtype.itemsize for step in strides]
    if not count:
        return np.zeros(sizes, dtype)
    return np.lib.stride_tricks.as_strided(flat[offset:], sizes, steps).copy()


def _describe(root: Any) -> str:
    if isinstance(root, PickledCall):
        return f"an object of {describe(root.function)}"
    if isinstance(root, dict):
        return f"a dict of {', '.join(map(describe, islice(root, 5))) or 'nothing'}"
    return f"a {type(root).__name__}"


# ``nn.DataParallel`` puts ``module.`` before each name, Lightning the attribute of the net (``model.``),
# and a net that is a part of another one has the names of its parts.

COUNTERS = "num_batches_tracked"
"""Batches that a BatchNorm has seen, which old files lack and no net reads."""

DEEPEST = 3
"""A prefix has at most so many parts."""


@dataclass(frozen=True, slots=True)
class Match:
    """Stored arrays by a module's names.

    Attributes:
        arrays: The arrays.
        note: What to tell the user; empty if the names are the module's.
    """

    arrays: Mapping[str, Any]
    note: str = ""


def match_names(arrays: Mapping[str, Any], own: Mapping[str, Sequence[int]]) -> Match:
    """Return stored arrays by a module's names: the same ones if no prefix makes all of them fit.

    Args:
        arrays: The arrays, by the names in the file.
        own: Sizes of the module's arrays, by its names.
    """
    if _fits(arrays, own):
        return Match(arrays)
    for prefix in _prefixes(arrays):
        inner = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
        if _fits(inner, own):
            others = [name for name in arrays if not name.startswith(prefix)]
            left = f"; {len(others)} others ({', '.join(others[:3])}, ...) are not" if others else ""
            return Match(inner, f"the arrays under {prefix!r} are used{left}")
    for prefix in _prefixes(own):
        outer = {f"{prefix}{name}": array for name, array in arrays.items()}
        if _fits(outer, own):
            return Match(outer, f"the arrays are those of the module's part {prefix!r}")
    return Match(arrays)


def _fits(arrays: Mapping[str, Any], own: Mapping[str, Sequence[int]]) -> bool:
    """Return whether there is an array of the right size for each of a module's own."""
    return all(
        name in arrays and tuple(arrays[name].shape) == tuple(shape)
        for name, shape in own.items()
        if not name.endswith(COUNTERS)
    )


def _prefixes(names: Mapping[str, Any]) -> list[str]:
    """Return what names begin with, up to a dot, short ones first."""
    prefixes: dict[str, None] = {}
    for depth in range(1, DEEPEST + 1):
        for name in names:
            parts = name.split(".")
            if len(parts) > depth:
                prefixes[".".join(parts[:depth]) + "."] = None
    return list(prefixes)
