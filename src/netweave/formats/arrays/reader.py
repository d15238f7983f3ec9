"""Files of named arrays."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files import Source
from netweave.files.gguf import GGUF, read_gguf
from netweave.files.npy import read_header, read_npz
from netweave.files.pickles import Name, OpaqueKey, PickledCall, bytes_of, describe, read_pickled
from netweave.files.safetensors import read_safetensors
from netweave.files.source import read_bytes
from netweave.graph import Graph, graph_of_weights
from netweave.graph.costs import num_elements

# The pickle is described (``netweave.files.pickles``) and nothing in it is called. A meaning is given to
# the calls by which NumPy rebuilds an array, and to no others.

_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_REBUILD = {Name(module, "_reconstruct") for module in _MODULES}
_SCALAR = {Name(module, "scalar") for module in _MODULES}
_DTYPE = Name("numpy", "dtype")
_DICTS = {Name("collections", "OrderedDict"), Name("builtins", "dict"), Name("__builtin__", "dict")}

_KINDS = "biuf"
"""Kinds of numbers that are read: truth values, whole numbers, floating point."""

MAX_DEPTH = 8
"""Dicts in dicts; deeper ones are refused."""

MAX_NAME = 1_000
"""Characters of one name; those of dicts in dicts are joined, and a pickle repeats a long one for free."""

MAX_VALUES = 100_000
"""Dicts and arrays in one file; no net has as many."""


def read_object(file: io.BytesIO, *, place: str) -> dict[str, np.ndarray]:
    """Return the arrays of a pickled dict, those of dicts inside it as ``outer/inner``.

    Args:
        file: The file, at the begin of the pickle.
        place: The file's name, for messages.

    Raises:
        ReadError: The pickle is damaged, or holds no dict.
        UnsupportedError: It would make something else than arrays in dicts.
    """
    root = read_pickled(file, place=place)
    if _is_call(root, _REBUILD):  # np.save wraps the dict into an array of one object
        root = _only_object(root, place)
    if _entries(root) is None:
        raise ReadError(f"holds {_kind(root)}, expected a dict of arrays by name", place=place)
    return dict(_Walk(place).named(root, ""))


class _Walk:
    """Goes through dicts and lists to the arrays; a pickle may hold a list many times, or in itself."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.num_values = 0

    def named(self, value: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the arrays in a value by name."""
        where = f"{self.place}: {describe(prefix)}" if prefix else self.place
        self.num_values += 1
        if depth > MAX_DEPTH or self.num_values > MAX_VALUES:
            raise UnsupportedError(
                f"has more than {MAX_VALUES:,} values, or dicts in more than {MAX_DEPTH} dicts", place=where
            )
        entries = _entries(value)
        if entries is None:
            yield prefix, _number(value, where)
            return
        for key, inner in entries:
            if not isinstance(key, str | int):
                raise UnsupportedError(f"has {_kind(key)} as a name", place=where)
            if isinstance(key, str) and len(key) > MAX_NAME:
                raise UnsupportedError(f"has a name of {len(key):,} characters: {describe(key)}", place=where)
            yield from self.named(inner, f"{prefix}/{key}" if prefix else str(key), depth + 1)


def _number(value: Any, place: str) -> np.ndarray:
    """Return an array or a number."""
    if isinstance(value, bool | int | float):
        return np.asarray(value)
    if _is_call(value, _REBUILD):
        return _array(value, place)
    if _is_call(value, _SCALAR):
        return _scalar(value, place)
    raise UnsupportedError(
        f"holds {_kind(value)}; arrays in dicts are read, and nothing of a pickle is ever called. "
        "Save the arrays with np.savez or as .safetensors",
        place=place,
    )


def _entries(value: Any) -> Iterable[tuple[Any, Any]] | None:
    """Return what a dict or a list holds, by key; None for what is neither."""
    if _is_call(value, _DICTS) and not value.arguments:
        return dict(value.items).items()
    if isinstance(value, list | tuple):
        return enumerate(value)
    return value.items() if isinstance(value, dict) else None


def _is_call(value: Any, functions: set[Name]) -> bool:
    return isinstance(value, PickledCall) and isinstance(value.function, Name) and value.function in functions


def _only_object(call: PickledCall, place: str) -> Any:
    """Return the one object of an array of objects."""
    state = call.state
    if isinstance(state, tuple) and len(state) == 5 and isinstance(state[4], list) and len(state[4]) == 1:
        return state[4][0]
    raise ReadError("holds an array of several objects, expected a dict of arrays by name", place=place)


def _array(call: PickledCall, place: str) -> np.ndarray:
    """Make the array of ``_reconstruct`` with the state (version, shape, type, column-major, bytes)."""
    state = call.state
    if not isinstance(state, tuple) or len(state) != 5:
        raise ReadError("an array in its pickle has no sizes and values", place=place)
    _, shape, described, by_columns, content = state
    dtype = _dtype(described, place)
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise ReadError("an array in its pickle has sizes that are not numbers", place=place)
    count = num_elements(shape)
    if count is None:
        raise ReadError("an array in its pickle has invalid sizes", place=place)
    values = _bytes(content, place)
    if count * dtype.itemsize != len(values):
        raise ReadError(
            f"an array of {'x'.join(map(str, shape))} {dtype} has {len(values):,} bytes, expected "
            f"{count * dtype.itemsize:,}; was the file copied whole?",
            place=place,
        )
    return np.frombuffer(values, dtype).reshape(shape, order="F" if by_columns else "C")


def _scalar(call: PickledCall, place: str) -> np.ndarray:
    if not isinstance(call.arguments, tuple) or len(call.arguments) != 2:
        raise ReadError("a number in its pickle has no value", place=place)
    dtype, values = _dtype(call.arguments[0], place), _bytes(call.arguments[1], place)
    if len(values) != dtype.itemsize:
        raise ReadError("a number in its pickle has too many or too few bytes", place=place)
    return np.frombuffer(values, dtype).reshape(())


def _dtype(value: Any, place: str) -> np.dtype[Any]:
    """Return the element type of ``dtype('f4', ...)`` with the state (version, byte order, ...)."""
    known = isinstance(value, PickledCall) and value.function == _DTYPE and isinstance(value.arguments, tuple)
    name = value.arguments[0] if known and value.arguments else None
    order = value.state[1] if known and isinstance(value.state, tuple) and len(value.state) > 1 else "<"
    if isinstance(name, str) and name[:1] in set(_KINDS) and name[1:] in {"1", "2", "4", "8"}:
        with suppress(TypeError):  # NumPy has no f1 or b2
            return np.dtype(name).newbyteorder(">" if order == ">" else "<")
    shown = f"{name:.40}" if isinstance(name, str) else _kind(value)
    raise UnsupportedError(f"has arrays of the type {shown}; only numbers are supported", place=place)


def _bytes(value: Any, place: str) -> bytes:
    content = bytes_of(value)
    if content is None:
        raise ReadError(f"an array in its pickle has {_kind(value)} for its bytes", place=place)
    return content


def _kind(value: Any) -> str:
    if isinstance(value, PickledCall):
        return describe(value)
    if isinstance(value, OpaqueKey):
        value = value.value
    return f"a {type(value).__name__}"


NPY = b"\x93NUMPY"
"""First bytes of a file of one array."""

ZIP = b"PK\x03\x04"
"""First bytes of an archive, which a ``.npz`` is."""


def kind_of(path: Path, head: bytes) -> str | None:
    """Return ``npy``, ``npz``, ``safetensors`` or ``gguf``; None for a file that is none of them.

    Args:
        path: The file.
        head: Its first bytes, 9 or more.
    """
    if head.startswith(NPY):
        return "npy"
    if head.startswith(GGUF):
        return "gguf"
    suffix = path.suffix.lower()
    if suffix == ".npz" and head.startswith(ZIP):
        return "npz"
    if suffix == ".safetensors" and head[8:9] == b"{":
        return "safetensors"
    return None


def read(source: Source) -> Graph:
    """Read a file of arrays as a net without nodes.

    Raises:
        SourceError: The file is damaged, or holds something else than arrays by name.
        UsageError: Weights or input sizes are given, of which such a file has none.
    """
    if source.weights is not None or source.input_shapes:
        raise UsageError(
            f"{source.net} holds only weights; it takes no other weights and no input sizes",
            unknown_inputs=tuple(source.input_shapes),
        )
    kind = kind_of(source.net, source.head(16))
    readers = {"npy": _read_npy, "npz": _read_npz, "safetensors": read_safetensors, "gguf": read_gguf}
    read_kind = readers[str(kind)]
    arrays = read_kind(source.net)
    if not arrays:
        raise ReadError("holds no arrays", place=str(source.net))
    return graph_of_weights(arrays, format_name="arrays", file=str(source.net))


def _read_npy(path: Path) -> dict[str, np.ndarray]:
    place = str(path)
    file = io.BytesIO(read_bytes(path))
    shape, _, dtype = read_header(file, place=place)
    if not dtype.hasobject:
        count = num_elements(shape)
        sizes = "more elements than are read" if count is None else "x".join(map(str, shape))
        raise UnsupportedError(
            f"holds one array of {sizes or 'a single number'}, expected a dict of arrays by name; an array "
            "of inputs goes to --probe or --input",
            place=place,
        )
    return read_object(file, place=place)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    return read_npz(path, place=str(path))
