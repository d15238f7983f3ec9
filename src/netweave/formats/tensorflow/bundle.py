"""The arrays of a checkpoint: ``NAME.index`` says where in ``NAME.data-00000-of-00001`` each one lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netweave.errors import ReadError, UnsupportedError, WeightError
from netweave.files.source import is_file, read_bytes
from netweave.formats.tensorflow.attributes import DTYPES, from_bytes, sizes
from netweave.formats.tensorflow.schema import BYTES
from netweave.formats.tensorflow.table import read_table
from netweave.graph.wording import names_text

if TYPE_CHECKING:
    import numpy as np

    from netweave.files.protobuf import Message

MAX_SHARDS = 10_000


@dataclass(frozen=True, slots=True)
class _Entry:
    """The place of an array."""

    dtype: str
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    sliced: bool


class Bundle:
    """The arrays of a checkpoint, read when they are asked for.

    Args:
        prefix: Path of the checkpoint without ``.index``.

    Raises:
        ReadError: The index cannot be read or is damaged.
    """

    def __init__(self, prefix: Path) -> None:
        self._prefix = prefix
        self.file = f"{prefix}.index"
        entries = read_table(read_bytes(Path(self.file)), place=self.file)
        header = BYTES.decode("BundleHeaderProto", entries.pop(b"", b""), place=self.file)
        self._num_shards = header["num_shards"]
        if not 1 <= self._num_shards <= MAX_SHARDS or header["endianness"]:
            raise ReadError(
                f"declares {self._num_shards} files of arrays"
                f"{' in big endian' if header['endianness'] else ''}, which is not supported",
                place=self.file,
            )
        self._entries = {
            key.decode("utf-8", "backslashreplace"): self._entry(value) for key, value in entries.items()
        }

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def keys(self) -> list[str]:
        """Return the keys of all arrays."""
        return list(self._entries)

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the sizes of an array."""
        return self._entries[key].shape

    def array(self, key: str) -> np.ndarray:
        """Return an array.

        Raises:
            WeightError: There is none of this name, or its bytes are not there.
            UnsupportedError: It is cut into slices, or is no array of numbers.
        """
        entry = self._entries.get(key)
        if entry is None:
            raise WeightError(
                f"contains no array {key!r}; it contains {names_text(self.keys(), most=3)}",
                place=self.file,
            )
        if entry.sliced or entry.dtype not in DTYPES:
            what = "is cut into slices (a partitioned variable)" if entry.sliced else f"is of {entry.dtype}"
            raise UnsupportedError(f"the array {key!r} {what}, which is not supported", place=self.file)
        return from_bytes(
            self._bytes(entry, key), DTYPES[entry.dtype], entry.shape, place=f"{self.file}: {key!r}"
        )

    def _bytes(self, entry: _Entry, key: str) -> bytes:
        name = f"{self._prefix}.data-{entry.shard:05d}-of-{self._num_shards:05d}"
        path = Path(name)
        if not is_file(path):
            raise WeightError(
                f"the file {path.name!r} with the values of {key!r} is missing", place=self.file
            )
        length = path.stat().st_size
        if entry.offset < 0 or entry.size < 0 or entry.offset + entry.size > length:
            raise WeightError(
                f"has {length:,} bytes, but {key!r} ends at {entry.offset + entry.size:,}; "
                f"was it copied completely?",
                place=name,
            )
        with path.open("rb") as file:
            file.seek(entry.offset)
            return file.read(entry.size)

    def _entry(self, content: bytes) -> _Entry:
        message: Message = BYTES.decode("BundleEntryProto", content, place=self.file)
        shape = sizes(message["shape"]) or ()
        return _Entry(
            str(message["dtype"]),
            tuple(size or 0 for size in shape),
            message["shard_id"],
            message["offset"],
            message["size"],
            "slices" in message,
        )
