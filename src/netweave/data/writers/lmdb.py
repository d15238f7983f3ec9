"""Caffe's data bases: Datum messages in an LMDB, as convert_imageset writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from netweave.data.block_checksums import write_checksums
from netweave.data.extras import need
from netweave.data.sources.lmdb import datum_class
from netweave.data.writers.writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from netweave.data.item import Item

COMMIT_RECORDS = 1000
"""Records of one transaction, as in Caffe's tools."""

PAGE_BYTES = 4096

ROOM_BYTES = 1 << 40
"""Address space for the file, which grows as it is written; it is no room on the disk."""


class LMDBWriter(Writer):
    """Keys are the number of the record and the name of its file, so that their order is that of writing.

    Args:
        target: The folder to be made.
    """

    def __init__(self, target: Path) -> None:
        super().__init__(target)
        lmdb = need("lmdb", "data bases of Caffe")
        self.num_bytes = 4 * PAGE_BYTES  # the two heads, a leaf, and the list of free pages
        self._environment = lmdb.open(str(self.unfinished), map_size=ROOM_BYTES, writemap=False)
        self._transaction = self._environment.begin(write=True)

    def encode(self, item: Item, number: int) -> tuple[tuple[bytes, bytes], int]:
        """Return key and Datum: encoded where it is a file, raw where it is pixels."""
        datum = datum_class()()
        datum.label = item.class_number(np.int32)
        if item.pixels is None:
            datum.data, datum.encoded = item.encoded(), True
        else:
            planes = item.planes()
            datum.channels, datum.height, datum.width = planes.shape
            if planes.dtype == np.uint8:
                datum.data = planes.tobytes()
            else:
                datum.float_data.extend(planes.ravel().tolist())
        key = f"{number:08d}_{item.name}" if item.name else f"{number:08d}"
        value = datum.SerializeToString()
        return (key.encode(), value), _stored_bytes(len(key) + len(value))

    def put(self, encoded: tuple[bytes, bytes]) -> None:
        """Write a record."""
        self._transaction.put(*encoded)
        if (self.count + 1) % COMMIT_RECORDS == 0:
            self._transaction.commit()
            self._transaction = self._environment.begin(write=True)

    def complete(self) -> None:
        """Close the data base."""
        self._transaction.commit()
        self._environment.sync()
        self._environment.close()
        (self.unfinished / "lock.mdb").unlink(missing_ok=True)
        write_checksums(self.unfinished / "data.mdb")

    def abandon(self) -> None:
        """Close the data base."""
        self._transaction.abort()
        self._environment.close()


def _stored_bytes(num_bytes: int) -> int:
    """Return the room of a record in the file: large values have pages of their own."""
    return num_bytes + 8 if num_bytes < PAGE_BYTES // 2 else -(-(num_bytes + 16) // PAGE_BYTES) * PAGE_BYTES
