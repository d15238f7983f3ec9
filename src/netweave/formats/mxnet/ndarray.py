"""The ``.params`` files of MXNet: a list of arrays with names, in every version of the record.

Layout from ndarray.cc (NDArray::Save, Load, LegacyLoad); all numbers are little endian::

    file    u64 0x112, u64 0, u64 count, records, u64 number of names, names as u64 length and bytes
    V0      u32 ndim, u32 sizes...; end if ndim = 0; context, i32 type, data
    V1      u32 magic, u32 ndim, i64 sizes...; end if ndim = 0; context, i32 type, data
    V2, V3  u32 magic, i32 storage, [shape of what is stored], i32 ndim, i64 sizes...; end if there is no
            array; context, i32 type, [types and shapes of the indices], data, [indices]
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
import onnx_ir as ir

from netweave.errors import ReadError, UnsupportedError, UsageError
from netweave.files import read_bytes
from netweave.formats.lowering.parameters import STATISTICS
from netweave.formats.mxnet.symbol.settings import DTYPES
from netweave.graph import Graph
from netweave.graph.costs import num_elements

FILE_MAGIC = 0x112
V1, V2, V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
MAX_RANK = 32
"""An array of NumPy 1 has no more axes."""

MAX_DENSE_BYTES = 1 << 30
"""A sparse array that would be larger when made dense is refused."""

DENSE, ROW_SPARSE, CSR = 0, 1, 2
STORAGES = {-1: DENSE, 0: DENSE, 1: ROW_SPARSE, 2: CSR}


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, in the order of the file; unnamed ones by their number.

    Names keep their prefix ``arg:`` or ``aux:``. Arrays that are none (of rank 0) are left out.

    Raises:
        ReadError: The file cannot be read, is no list of arrays, or is truncated.
        UnsupportedError: An array has a type or storage that Netweave does not read.
    """
    return _File(read_bytes(path), str(path)).arrays()


def read_record(content: bytes, name: str) -> np.ndarray | None:
    """Return the array of one record, as MXNet pickles an array; None if it holds none.

    Args:
        content: The record.
        name: The file's name, for messages.

    Raises:
        ReadError: It is truncated or damaged.
        UnsupportedError: The array has a type or storage that Netweave does not read.
    """
    return _File(content, name).record()


def is_arrays(head: bytes) -> bool:
    """Return whether a file's first bytes are those of a list of arrays."""
    return head[:8] == struct.pack("<Q", FILE_MAGIC)


class _File:
    """The bytes of a file and how far they were read."""

    def __init__(self, content: bytes, name: str) -> None:
        self._content = content
        self._name = name
        self._at = 0
        self._what = "the header"

    def arrays(self) -> dict[str, np.ndarray]:
        if not is_arrays(self._content):
            raise ReadError(
                f"is no MXNet .params file: it starts with {self._content[:8]!r}, expected the number 0x112",
                place=self._name,
            )
        _, _, count = self._numbers("<QQQ")
        self._check_count(count, "arrays")
        records = []
        for number in range(count):
            self._what = f"array {number} of {count}"
            records.append(self.record())
        names = self._names(count)
        return {name: array for name, array in zip(names, records, strict=True) if array is not None}

    def _names(self, count: int) -> list[str]:
        self._what = "the names"
        (num_names,) = self._numbers("<Q")
        if num_names == 0:
            return [str(number) for number in range(count)]
        if num_names != count:
            raise self._wrong(f"{num_names} names for {count} arrays")
        names = []
        for _ in range(count):
            (length,) = self._numbers("<Q")
            names.append(bytes(self._take(length)).decode("utf-8", errors="replace"))
        if len(set(names)) != count:
            twice = next(name for name in names if names.count(name) > 1)
            raise self._wrong(f"two arrays are named {twice!r}")
        return names

    def record(self) -> np.ndarray | None:
        (magic,) = self._numbers("<I")
        if magic in {V2, V3}:
            return self._record_with_storage(np_shapes=magic == V3)
        shape = self._sizes("q") if magic == V1 else self._sizes("I", rank=magic)
        if not shape:
            return None
        return self._data(self._context_and_type(), shape)

    def _record_with_storage(self, *, np_shapes: bool) -> np.ndarray | None:
        (number,) = self._numbers("<i")
        storage = STORAGES.get(number)
        if storage is None:
            raise self._wrong(f"storage type {number}, expected 0, 1 or 2")
        stored = self._sizes("q", signed=True) if storage != DENSE else ()
        shape = self._sizes("q", signed=True)
        if shape is None or (not shape and not np_shapes):
            return None
        dtype = self._context_and_type()
        if storage == DENSE:
            return self._data(dtype, shape)
        return self._sparse(dtype, shape, stored or (), num_indices=storage)

    def _sparse(
        self, dtype: np.dtype, shape: tuple[int, ...], stored: tuple[int, ...], *, num_indices: int
    ) -> np.ndarray:
        described = []
        for _ in range(num_indices):
            index_type = self._dtype()
            described.append((index_type, self._sizes("q", signed=True) or ()))
        values = self._data(dtype, stored)
        indices = [self._data(index_type, sizes).astype(np.int64) for index_type, sizes in described]
        if prod(shape) * dtype.itemsize > MAX_DENSE_BYTES:
            raise UnsupportedError(
                f"{self._what} is sparse and has {prod(shape):,} elements when made dense, which is too many",
                place=self._name,
            )
        try:
            return _dense(values, indices, shape)
        except (IndexError, ValueError) as error:
            raise self._wrong(f"indices that do not fit the shape {shape}") from error

    def _context_and_type(self) -> np.dtype:
        self._numbers("<ii")
        return self._dtype()

    def _dtype(self) -> np.dtype:
        (flag,) = self._numbers("<i")
        name = DTYPES.get(str(flag))
        if name is None:
            raise UnsupportedError(
                f"{self._what} has the element type {flag}, expected 0 to {len(DTYPES) - 1}", place=self._name
            )
        return ir.DataType.BFLOAT16.numpy() if name == "bfloat16" else np.dtype(name).newbyteorder("<")

    def _sizes(self, kind: str, *, rank: int | None = None, signed: bool = False) -> tuple[int, ...] | None:
        """Return a shape; None for "no array", which only a signed rank can say."""
        if rank is None:
            (rank,) = self._numbers("<i" if signed else "<I")
        if rank == -1 and signed:
            return None
        if not 0 <= rank <= MAX_RANK:
            raise self._wrong(f"rank {rank}, expected 0 to {MAX_RANK}")
        sizes = self._numbers(f"<{rank}{kind}")
        if min(sizes, default=0) < 0 or (0 in sizes and num_elements(sizes) is None):
            raise self._wrong(f"the shape {sizes}")
        return sizes

    def _data(self, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
        raw = self._take(prod(shape) * dtype.itemsize, f" for the shape {shape} of {dtype.name}")
        return np.frombuffer(raw, dtype).reshape(shape)

    def _check_count(self, count: int, what: str) -> None:
        if count * 4 > len(self._content):
            raise ReadError(
                f"says that it holds {count:,} {what}, but has only {len(self._content):,} bytes; "
                f"it is damaged",
                place=self._name,
            )

    def _numbers(self, form: str) -> tuple[int, ...]:
        return struct.unpack(form, self._take(struct.calcsize(form)))

    def _take(self, num_bytes: int, what_for: str = "") -> memoryview:
        end = self._at + num_bytes
        if end > len(self._content):
            raise ReadError(
                f"ends in {self._what}: {num_bytes:,} bytes expected{what_for}, "
                f"{len(self._content) - self._at:,} left; was it copied or downloaded whole?",
                place=self._name,
            )
        taken = memoryview(self._content)[self._at : end]
        self._at = end
        return taken

    def _wrong(self, what: str) -> ReadError:
        return ReadError(f"{self._what} has {what}; the file is damaged", place=self._name)


def _dense(values: np.ndarray, indices: list[np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    """Return a row_sparse (row numbers) or csr (row ends, column numbers) array as a dense one.

    Raises:
        ValueError: Numbers of rows or columns do not fit the values.
        IndexError: There is no such row or column.
    """
    array = np.zeros(shape, values.dtype)
    if any(index.ndim != 1 or (index < 0).any() for index in indices):
        raise IndexError("negative, or not in one row")
    if len(indices) == 1:
        array[indices[0]] = values.reshape(len(indices[0]), *shape[1:])
        return array
    ends, columns = indices
    counts = np.diff(ends)
    if ends[0] != 0 or ends[-1] != len(columns) or (counts < 0).any():
        raise ValueError("ends of rows")
    rows = np.repeat(np.arange(shape[0]), counts)
    array[rows, columns] = values.reshape(len(columns))
    return array


CPU = (1, 0)
"""The device that arrays are said to lie on: its type and number."""


def encode_params(graph: Graph, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the arrays of a net as the bytes of a ``.params`` file, with ``arg:`` and ``aux:``.

    Args:
        graph: A net of MXNet's.
        arrays: Its arrays by key.

    Raises:
        UsageError: An array of the net is missing.
    """
    missing = [key for key in graph.parameters if key not in arrays]
    if missing:
        raise UsageError(f"{graph.name}: there are no values for {', '.join(missing)}")
    prefixes = {key: "aux" if p.role in STATISTICS else "arg" for key, p in graph.parameters.items()}
    return encode_arrays({f"{prefixes[key]}:{key}": arrays[key] for key in graph.parameters})


def encode_arrays(arrays: Mapping[str, np.ndarray], *, named: bool = True) -> bytes:
    """Return arrays with names as the bytes of a ``.params`` file.

    Args:
        arrays: The arrays.
        named: Whether their names are written; MXNet loads arrays without names as a list.

    Raises:
        UsageError: MXNet has no such type of elements.
    """
    parts = [struct.pack("<QQQ", FILE_MAGIC, 0, len(arrays))]
    parts += [encode_record(name, array) for name, array in arrays.items()]
    parts.append(struct.pack("<Q", len(arrays) if named else 0))
    for name in arrays if named else ():
        written = name.encode()
        parts += [struct.pack("<Q", len(written)), written]
    return b"".join(parts)


def encode_record(name: str, array: np.ndarray) -> bytes:
    """Return one array as the bytes that a file of arrays has for it.

    Args:
        name: What the array is called in messages.
        array: The array.

    Raises:
        UsageError: MXNet has no such type of elements.
    """
    flags = {dtype: int(flag) for flag, dtype in DTYPES.items()}
    if array.dtype.name not in flags:
        raise UsageError(
            f"{name}: MXNet has no elements of type {array.dtype.name}; it has {', '.join(flags)}"
        )
    shape = array.shape or (1,)  # rank 0 would mean that there is no array
    head = struct.pack(f"<Iii{len(shape)}q", V2, 0, len(shape), *shape)
    plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return head + struct.pack("<iii", *CPU, flags[array.dtype.name]) + plain.tobytes()
