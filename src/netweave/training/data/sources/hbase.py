"""Rows of an HBase table, through its Thrift gateway: an image in one column, its label in another."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from netweave.errors import ReadError, UsageError
from netweave.files.border import reason_of
from netweave.installation import need
from netweave.runtime.images.decode import decode
from netweave.training.data.item import Item
from netweave.training.data.source import Record, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PORT = 9090
"""Of the gateway, where the URL says none."""

SETTINGS = {
    "image": "",
    "label": "",
    "prefix": "",
    "label_type": "text",
    "transport": "buffered",
    "protocol": "binary",
}
"""What a URL may say behind its question mark, and what holds where it does not."""

CHOICES = {
    "label_type": ("text", "int"),
    "transport": ("buffered", "framed"),
    "protocol": ("binary", "compact"),
}
"""What some may be. A label is digits, or a big-endian integer as HBase's ``Bytes.toBytes`` writes it;
transport and protocol are as the gateway was started."""

KEYS_AT_ONCE = 1000
"""Row keys of one answer, when they are listed."""

TIMEOUT_MS = 20_000
"""So long is an answer waited for."""

PAUSES_S = (0.1, 0.5)
"""Before each further attempt, on a new connection: gateways are restarted, idle connections are dropped."""

Cells = tuple[bytes | None, bytes | None]
"""Image and label of a row; None where it has no such cell."""


class HBase(Source):
    """The rows of a table that have an image, in the order of their keys.

    Only the keys are read when it is opened; rows are fetched as they are needed, a batch in one request.

    Args:
        path: ``hbase://HOST:PORT/TABLE?image=FAMILY:NAME&label=FAMILY:NAME``; ``SETTINGS`` names the rest.
        color: How images are decoded.

    Raises:
        UsageError: The URL lacks something or says something unknown, or happybase is not installed.
        ReadError: The gateway does not answer, or there is no such table, or it has no such rows.
    """

    images = True
    remote = True

    def __init__(self, path: str, color: str = "bgr") -> None:
        said, self._table = _parse(path)
        self.place = path.partition("?")[0]
        self._color = color
        self._image, self._label = said["image"].encode(), said["label"].encode()
        self._label_type = said["label_type"]
        url = urlsplit(path)
        happybase = need("happybase", "rows of HBase", extra="hbase")
        self._connect = functools.partial(
            happybase.Connection,
            host=url.hostname,
            port=url.port or PORT,
            timeout=TIMEOUT_MS,
            transport=said["transport"],
            protocol=_checked_protocol(said["protocol"]),
        )
        self._idle: list[Any] = []  # connections that no thread uses now
        self._keys: list[bytes] = self._attempts(functools.partial(self._list_keys, said["prefix"].encode()))
        if not self._keys:
            self.close()
            raise ReadError(f"has no rows with a cell {said['image']!r}", place=self.place)

    def __len__(self) -> int:
        return len(self._keys)

    def describe(self, index: int) -> str:
        """Return the place of a record, for messages."""
        return f"{self.place}: row {self._keys[index].decode('utf-8', 'backslashreplace')!r}"

    def read(self, index: int) -> Record:
        """Return pixels and label."""
        return self.parse(index, self.fetch([index])[0])

    def fetch(self, indices: Sequence[int]) -> list[Cells]:
        """Return the cells of several rows, in one request."""
        keys = [self._keys[index] for index in indices]
        columns = [self._image, self._label] if self._label else [self._image]

        rows = dict(self._attempts(lambda table: table.rows(list(dict.fromkeys(keys)), columns)))
        cells = [rows.get(key, {}) for key in keys]
        return [(row.get(self._image), row.get(self._label)) for row in cells]

    def parse(self, index: int, fetched: Cells) -> Record:
        """Return a record from its cells."""
        content, label = self._checked(index, fetched)
        return decode(content, self._color, lambda: self.describe(index)), np.asarray(label, np.float32)

    def item(self, index: int) -> Item:
        """Return a record as a writer is given it."""
        content, label = self._checked(index, self.fetch([index])[0])
        name = self._keys[index].decode("utf-8", "backslashreplace")
        return Item(name, np.array([label], np.float32), content=content)

    def _checked(self, index: int, cells: Cells) -> tuple[bytes, float]:
        content, label = cells
        if content is None or (label is None and self._label):
            missing = self._image if content is None else self._label
            raise ReadError(
                f"has no cell {missing.decode()!r}; was it deleted since the table was opened?",
                place=self.describe(index),
            )
        return content, 0.0 if label is None else self._number(index, label)

    def _number(self, index: int, label: bytes) -> float:
        try:
            if self._label_type == "int" and len(label) in {1, 2, 4, 8}:
                return float(int.from_bytes(label, "big", signed=True))
            if self._label_type == "text":
                return float(label)
        except ValueError:
            pass
        other = "label_type=int" if self._label_type == "text" else "label_type=text"
        raise ReadError(
            f"has the label {label[:20]!r}, which is no {self._label_type}; for other labels say {other} in "
            "the URL",
            place=self.describe(index),
        )

    def close(self) -> None:
        """Close all connections."""
        while self._idle:
            self._idle.pop().close()

    def _list_keys(self, prefix: bytes, table: Any) -> list[bytes]:
        rows = table.scan(
            row_prefix=prefix or None,
            columns=[self._image],
            filter=b"KeyOnlyFilter()",
            batch_size=KEYS_AT_ONCE,
        )
        return [key for key, _ in rows]

    def _connection(self) -> Any:
        try:
            return self._idle.pop()  # not asked for before: another thread may take the last one
        except IndexError:
            return self._connect()

    def _attempts(self, ask: Callable[[Any], Any]) -> Any:
        """Return an answer of the gateway; ask again, on a new connection, where none comes."""
        for pause_s in (*PAUSES_S, None):
            connection = None
            try:
                connection = self._connection()
                answer = ask(connection.table(self._table))
            except Exception as error:  # thriftpy2 raises more than its own: struct.error, KeyError
                if connection is not None:
                    connection.close()
                if pause_s is None:
                    raise ReadError(
                        f"the Thrift gateway does not answer: {reason_of(error)}; is it up (hbase thrift "
                        "start), and are host, port, table and columns right? --resume continues a run that "
                        "stopped",
                        place=self.place,
                    ) from error
                time.sleep(pause_s)
            else:
                self._idle.append(connection)
                return answer
        raise AssertionError("the last attempt returns or raises")


def _checked_protocol(name: str) -> str:
    """Return the name by which happybase knows a protocol whose messages are checked."""
    from happybase.connection import THRIFT_PROTOCOLS

    from netweave.training.data.sources.thrift_messages import PROTOCOLS

    known = f"netweave-{name}"
    THRIFT_PROTOCOLS.setdefault(known, PROTOCOLS[name])
    return known


def _parse(path: str) -> tuple[dict[str, str], str]:
    """Return the settings of a URL, and its table.

    Raises:
        UsageError: It lacks something, or says something unknown.
    """
    url = urlsplit(path)
    rows = parse_qsl(url.query, keep_blank_values=True)
    said = dict(rows)
    table = url.path.strip("/")
    try:
        complete = bool(url.hostname and table and said.get("image") and url.port != 0)
    except ValueError:
        complete = False
    if not complete:
        raise UsageError(
            f"{path}: is incomplete, expected hbase://HOST:PORT/TABLE?image=FAMILY:NAME&label=FAMILY:NAME"
        )
    if len(said) < len(rows) or url.username is not None or url.fragment:
        raise UsageError(
            f"{path}: has a setting twice, a user's name or a part behind '#', expected "
            "hbase://HOST:PORT/TABLE and each setting once"
        )
    unknown = [name for name in said if name not in SETTINGS]
    if unknown:
        raise UsageError(f"{path}: says {', '.join(unknown)}, which is unknown; known: {', '.join(SETTINGS)}")
    for name, known in CHOICES.items():
        if said.get(name, known[0]) not in known:
            raise UsageError(f"{path}: {name} is {said[name]!r}, expected {' or '.join(known)}")
    return {**SETTINGS, **said}, table
