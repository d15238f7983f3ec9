"""``.safetensors``: the length of a JSON header, the header, then the bytes of all arrays.

The form is that of https://huggingface.co/docs/safetensors: offsets from the end of the header, without
gaps, little-endian, row-major. Its library gives NumPy no types that NumPy lacks (docs/decisions/0230).
"""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from netweave.errors import ReadError, UnsupportedError
from netweave.files.json_text import parse_json
from netweave.files.source import read_bytes
from netweave.graph.costs import num_elements

MAX_HEADER = 16 << 20
"""No writer makes a longer header: that of a net of 100,000 arrays has about 12 MB."""

DTYPES: dict[str, np.dtype[Any]] = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype(np.bool_),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I8": np.dtype("<i1"),
    "I16": np.dtype("<i2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("<u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
}
"""Element types by their names in a header."""


def read_safetensors(path: Path, *, place: str | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a file by name, in the order of their bytes.

    Args:
        path: The file.
        place: What errors call it; its path by default.

    Raises:
        ReadError: The file is damaged.
        UnsupportedError: An array has a type that is not read.
    """
    content, place = read_bytes(path), place or str(path)
    length = int.from_bytes(content[:8], "little")
    if not 0 < length <= min(MAX_HEADER, len(content) - 8):
        raise ReadError(f"its header would have {length:,} bytes; was it copied whole?", place=place)
    header = parse_json(content[8 : 8 + length], file=f"{place}: its header", unique_keys=True)
    if not isinstance(header, dict) or content.startswith(BOM_UTF8, 8):
        raise ReadError("its header is not a JSON object", place=place)
    data = memoryview(content)[8 + length :]
    rows = [(name, row) for name, row in header.items() if name != "__metadata__"]
    arrays = {name: _array(row, data, f"{place}: {name!r:.200}") for name, row in rows}
    _check_metadata(header.get("__metadata__"), f"{place}: __metadata__")
    spans = sorted((tuple(row["data_offsets"]), name) for name, row in rows)
    _check_spans(spans, len(data), place)
    return {name: arrays[name] for _, name in spans}


def _check_metadata(metadata: Any, place: str) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ReadError("expected an object whose values are texts", place=place)


def _check_spans(spans: Sequence[tuple[tuple[int, ...], str]], num_bytes: int, place: str) -> None:
    """Check that the arrays fill the bytes behind the header, each byte being of one array."""
    last, before = 0, "the header"
    for (begin, end), name in spans:
        if begin != last:
            fault = "overlaps" if begin < last else "leaves a gap behind"
            raise ReadError(
                f"begins at byte {begin:,} and {fault} {before:.200}, which ends at {last:,}; "
                "the file is damaged",
                place=f"{place}: {name!r:.200}",
            )
        last, before = end, repr(name)
    if last != num_bytes:
        raise ReadError(
            f"has {num_bytes - last:,} bytes behind the last array, expected none; the file is damaged",
            place=place,
        )


def _array(row: Any, data: memoryview, place: str) -> np.ndarray:
    if not isinstance(row, dict) or not {"dtype", "shape", "data_offsets"} <= row.keys():
        raise ReadError("its row in the header lacks dtype, shape or data_offsets", place=place)
    name, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
    if not isinstance(name, str) or name not in DTYPES:
        raise UnsupportedError(f"has the type {name!r:.60}; expected {', '.join(DTYPES)}", place=place)
    dtype = DTYPES[name]
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2 or num_elements(shape) is None:
        raise ReadError(
            f"has the sizes {shape!r:.60} at {offsets!r:.60}, expected whole numbers", place=place
        )
    begin, end = offsets
    if not begin <= end <= len(data) or end - begin != prod(shape) * dtype.itemsize:
        raise ReadError(
            f"its bytes {begin:,} to {end:,} of {len(data):,} do not hold {'x'.join(map(str, shape))} "
            f"{row['dtype']}; was the file copied whole?",
            place=place,
        )
    return np.frombuffer(data[begin:end], dtype).reshape(shape)


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**48 for n in value)
