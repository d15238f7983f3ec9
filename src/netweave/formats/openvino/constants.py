"""The arrays of an IR: ranges of the file of weights."""

from __future__ import annotations

from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError, WeightError
from netweave.files.source import is_file, read_bytes
from netweave.formats.lowering.channels_last import Stored
from netweave.formats.openvino.document import IRLayer, parse_size
from netweave.graph.costs import num_elements

DTYPES: dict[str, np.dtype[Any]] = {
    "boolean": np.dtype("?"),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype("<f2"),
    "f32": np.dtype("<f4"),
    "f64": np.dtype("<f8"),
    "i8": np.dtype("<i1"),
    "i16": np.dtype("<i2"),
    "i32": np.dtype("<i4"),
    "i64": np.dtype("<i8"),
    "u8": np.dtype("<u1"),
    "u16": np.dtype("<u2"),
    "u32": np.dtype("<u4"),
    "u64": np.dtype("<u8"),
}
"""Element types that a net computes with."""

NIBBLES: dict[str, np.dtype[Any]] = {"i4": np.dtype("i1"), "u4": np.dtype("u1")}
"""Types of which a byte holds two numbers, the first in its lower half."""

SMALL = frozenset({"i8", "u8", *NIBBLES})
"""Types of integers that stand for weights, which operators bring to real numbers."""


class Constants:
    """Gives the arrays of constants.

    Args:
        path: The file of weights; None where there is none.
        net: Name of the file of the net.

    Attributes:
        taken: Names of the net's inputs and outputs, which no stored array may have.
    """

    def __init__(self, path: Path | None, *, net: str) -> None:
        self.taken: frozenset[str] = frozenset()
        self._path = path
        self._net = net

    @cached_property
    def _content(self) -> bytes:
        return b"" if self._path is None else read_bytes(self._path)

    @property
    def files(self) -> tuple[str, ...]:
        """Return the names of the files that were given."""
        return () if self._path is None else (str(self._path),)

    def value(self, layer: IRLayer, *, place: str) -> Stored:
        """Return the array of a constant: one of several real numbers is stored, all else part of the net.

        Raises:
            ReadError: Its place in the file, its type or its sizes are damaged.
            WeightError: The file does not hold it.
        """
        kind, shape = layer.settings.get("element_type", ""), _shape(layer, place)
        if kind not in DTYPES and kind not in NIBBLES:
            raise UnsupportedError(f"has elements of type {kind!r:.40}, which is not supported", place=place)
        offset, size = (_number(layer, name, place) for name in ("offset", "size"))
        count = prod(shape)
        expected = (count + 1) // 2 if kind in NIBBLES else count * DTYPES[kind].itemsize
        if size != expected:
            raise ReadError(
                f"has {size:,} bytes, expected {expected:,} for {list(shape)} {kind}", place=place
            )
        if size and self._path is None:
            raise WeightError(
                f"needs bytes {offset:,} to {offset + size:,} of the file of weights; there is none beside "
                f"{self._net}; give it, as in NET.xml,NET.bin",
                place=place,
            )
        if offset + size > len(self._content):
            raise WeightError(
                f"lies at bytes {offset:,} to {offset + size:,} of {self._path}, which has "
                f"{len(self._content):,}; was it copied whole?",
                place=place,
            )
        array = self._array(kind, offset, count).reshape(shape)
        if array.size > 1 and (
            array.dtype.kind in "fV" or layer.settings.get("element_type") in {"i8", "u8", "i4", "u4"}
        ):
            key = f"{layer.name}/value" if layer.name in self.taken else layer.name
            return Stored.parameter(key, array, shape)
        return Stored.constant(array)

    def _array(self, kind: str, offset: int, count: int) -> np.ndarray:
        if kind not in NIBBLES:
            return np.frombuffer(self._content, DTYPES[kind], count, offset)
        pairs = np.frombuffer(self._content, np.uint8, (count + 1) // 2, offset)
        halves = np.stack([pairs << 4, pairs], axis=-1).reshape(-1)[:count].view(NIBBLES[kind])
        return halves >> 4


def weights_beside(net: Path, given: Path | None) -> Path | None:
    """Return the file of weights: the one that is given, or the one beside the net."""
    beside = net.with_suffix(".bin")
    return given or (beside if is_file(beside) else None)


def _shape(layer: IRLayer, place: str) -> tuple[int, ...]:
    text = layer.settings.get("shape", "")
    sizes = [parse_size(size, place=place) for size in text.split(",") if size.strip()]
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes) or num_elements(known) is None:
        raise ReadError(f"has the sizes {text!r:.60}, which no array can have", place=place)
    return tuple(known)


def _number(layer: IRLayer, name: str, place: str) -> int:
    text = layer.settings.get(name, "")
    if not (text.isdecimal() and text.isascii() and len(text) <= 18):
        raise ReadError(f"{name}={text!r:.40}, expected a whole number", place=place)
    return int(text)
