"""Thrift's binary and compact protocols, each message checked before thriftpy2 takes it apart.

thriftpy2 counts to whatever size a list declares, and reads no bytes for elements of a type that it does not
know: a damaged answer of some bytes held it for minutes. Here each element has a known type, and so takes at
least a byte that has arrived.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from thriftpy2.protocol.compact import TCompactProtocol
from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.transport.memory import TCyMemoryBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

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
