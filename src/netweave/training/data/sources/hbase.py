"""HBase tables as sources."""

from __future__ import annotations

import functools
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.transport.memory import TCyMemoryBuffer

from netweave.errors import ReadError, UsageError
from netweave.files.library_errors import reason_of
from netweave.installation import need
from netweave.runtime.images.decode import decode
from netweave.training.data.item import Item
from netweave.training.data.source import Record, Source

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


# thriftpy2 counts to whatever size a list declares, and reads no bytes for elements of a type that it does
# not know: a damaged answer of some bytes held it for minutes. Here each element has a known type, and so
# takes at least a byte that has arrived.

MAX_DEPTH = 64
MAX_STRING_BYTES = 1 << 28
"""HBase refuses cells of over 10 MB at its default settings."""

MAX_VARINT_BYTES = 10
"""Of 64 bits, seven in a byte."""


class CheckedMessage(ABC):
    """A message as it comes in.

    Args:
        read: Gives the next bytes of the connection.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self._parts = read, list[bytes]()

    def content(self) -> bytes:
        """Return the bytes of the message.

        Raises:
            ValueError: It is damaged.
        """
        self._header()
        self._struct(0)
        return b"".join(self._parts)

    def _take(self, num_bytes: int) -> bytes:
        content = self._read(num_bytes)
        if len(content) != num_bytes:
            raise ValueError("the answer ends in the middle")
        self._parts.append(content)
        return content

    def _string(self, num_bytes: int) -> None:
        if not 0 <= num_bytes <= MAX_STRING_BYTES:
            raise ValueError(f"a string of {num_bytes:,} bytes, expected at most {MAX_STRING_BYTES:,}")
        if num_bytes:
            self._take(num_bytes)

    def _value(self, kind: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} deep")
        self._value_of(kind, depth)

    def _elements(self, count: int, kinds: list[int], depth: int) -> None:
        for _ in range(count):
            for kind in kinds:
                self._value(kind, depth + 1)

    @abstractmethod
    def _header(self) -> None:
        """Read what comes before the struct of a message."""

    @abstractmethod
    def _struct(self, depth: int) -> None:
        """Read fields up to the end of a struct."""

    @abstractmethod
    def _value_of(self, kind: int, depth: int) -> None:
        """Read a value that is not nested too deep."""


class BinaryMessage(CheckedMessage):
    """A message of the binary protocol: types and sizes are whole integers."""

    _SIZES: ClassVar = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}  # bool, byte, double, i16, i32 and i64
    _STRING, _STRUCT, _MAP, _SET, _LIST = 11, 12, 13, 14, 15

    def _header(self) -> None:
        if self._number(">i") >= 0:  # version and type; older writers begin with the length of the name
            raise ValueError("an answer without a version")
        self._string(self._number(">i"))
        self._number(">i")

    def _struct(self, depth: int) -> None:
        while kind := self._number(">b"):
            self._number(">h")
            self._value(kind, depth + 1)

    def _value_of(self, kind: int, depth: int) -> None:
        if kind in self._SIZES:
            self._take(self._SIZES[kind])
        elif kind == self._STRING:
            self._string(self._number(">i"))
        elif kind == self._STRUCT:
            self._struct(depth)
        elif kind in {self._MAP, self._SET, self._LIST}:
            kinds = [self._number(">b") for _ in range(2 if kind == self._MAP else 1)]
            self._elements(self._number(">i"), kinds, depth)
        else:
            raise ValueError(f"a value of the unknown type {kind}")

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])


class CompactMessage(CheckedMessage):
    """A message of the compact protocol: numbers take as many bytes as they need, types half a byte."""

    _TRUE, _FALSE, _BYTE, _DOUBLE, _STRING, _LIST, _SET, _MAP, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
    _INTEGERS = (4, 5, 6)

    def _header(self) -> None:
        self._take(2)  # protocol, version and type, which thriftpy2 checks
        self._varint()
        self._string(self._varint())

    def _struct(self, depth: int) -> None:
        while kind := (head := self._byte()) & 15:
            if not head >> 4:  # the field's number is not the last one and a little more
                self._varint()
            if kind not in {self._TRUE, self._FALSE}:  # which are their own value
                self._value(kind, depth + 1)

    def _value_of(self, kind: int, depth: int) -> None:
        if kind in {self._TRUE, self._FALSE, self._BYTE}:
            self._take(1)
        elif kind in self._INTEGERS:
            self._varint()
        elif kind == self._DOUBLE:
            self._take(8)
        elif kind == self._STRING:
            self._string(self._varint())
        elif kind == self._STRUCT:
            self._struct(depth)
        elif kind in {self._LIST, self._SET}:
            head = self._byte()
            self._elements(head >> 4 if head >> 4 < 15 else self._varint(), [head & 15], depth)
        elif kind == self._MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            self._elements(count, [kinds >> 4, kinds & 15], depth)
        else:
            raise ValueError(f"a value of the unknown type {kind}")

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        number = 0
        for place in range(MAX_VARINT_BYTES):
            byte = self._byte()
            number |= (byte & 127) << 7 * place
            if byte < 128:
                return number
        raise ValueError(f"a number of more than {MAX_VARINT_BYTES} bytes")


class _Checked:
    """The protocol of a client: a message is read whole, checked, and then given to thriftpy2."""

    message: type[CheckedMessage]
    trans: Any

    def read_message_begin(self) -> Any:
        """Read and check a message; return its name, type and number.

        Raises:
            ValueError: It is damaged.
        """
        self._connection = self.trans
        self.trans = TCyMemoryBuffer(self.message(self.trans.read).content())
        return super().read_message_begin()  # type: ignore[misc]  # the library's, which comes next

    def read_message_end(self) -> None:
        """Go back to the connection."""
        self.trans = self._connection


class CheckedBinaryProtocol(_Checked, TCyBinaryProtocol):  # type: ignore[misc]  # the library says no types
    """The binary protocol, checked."""

    message = BinaryMessage


class CheckedCompactProtocol(_Checked, TCompactProtocol):  # type: ignore[misc]  # the library says no types
    """The compact protocol, checked."""

    message = CompactMessage


PROTOCOLS = {"binary": CheckedBinaryProtocol, "compact": CheckedCompactProtocol}
"""By the name that a URL says."""
