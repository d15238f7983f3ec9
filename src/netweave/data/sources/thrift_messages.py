"""Thrift's binary protocol, each message checked before thriftpy2 takes it apart.

thriftpy2 counts to whatever size a list declares, and reads no bytes for elements of a type that it does not
know: a damaged answer of some bytes held it for minutes. Here each element has a known type, and so takes at
least a byte that has arrived.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from thriftpy2.protocol.cybin import TCyBinaryProtocol
from thriftpy2.transport.memory import TCyMemoryBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = {2: 1, 3: 1, 4: 8, 6: 2, 8: 4, 10: 8}
"""Bytes of bool, byte, double, i16, i32 and i64."""

STRING, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15

MAX_DEPTH = 64
MAX_STRING_BYTES = 1 << 28
"""HBase refuses cells of over 10 MB at its default settings."""


class CheckedBinaryProtocol(TCyBinaryProtocol):  # type: ignore[misc]  # the library says no types
    """The protocol of a client: a message is read whole, checked, and then given to thriftpy2."""

    trans: Any

    def read_message_begin(self) -> Any:
        """Read and check a message; return its name, type and number.

        Raises:
            ValueError: It is damaged.
        """
        self._connection = self.trans
        self.trans = TCyMemoryBuffer(_Message(self.trans.read).content())
        return super().read_message_begin()

    def read_message_end(self) -> None:
        """Go back to the connection."""
        self.trans = self._connection


class _Message:
    """A message as it comes in.

    Args:
        read: Gives the next bytes of the connection.
    """

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read, self._parts = read, list[bytes]()

    def content(self) -> bytes:
        """Return the bytes of the message."""
        if self._number(">i") < 0:  # version and type; older writers begin with the length of the name
            self._string()
            self._number(">i")
        else:
            raise ValueError("an answer without a version")
        self._struct(0)
        return b"".join(self._parts)

    def _take(self, num_bytes: int) -> bytes:
        content = self._read(num_bytes)
        if len(content) != num_bytes:
            raise ValueError("the answer ends in the middle")
        self._parts.append(content)
        return content

    def _number(self, form: str) -> int:
        return int(struct.unpack(form, self._take(struct.calcsize(form)))[0])

    def _string(self) -> None:
        num_bytes = self._number(">i")
        if not 0 <= num_bytes <= MAX_STRING_BYTES:
            raise ValueError(f"a string of {num_bytes:,} bytes, expected at most {MAX_STRING_BYTES:,}")
        if num_bytes:
            self._take(num_bytes)

    def _struct(self, depth: int) -> None:
        while kind := self._number(">b"):
            self._number(">h")
            self._value(kind, depth + 1)

    def _value(self, kind: int, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ValueError(f"is nested more than {MAX_DEPTH} deep")
        if kind in SIZES:
            self._take(SIZES[kind])
        elif kind == STRING:
            self._string()
        elif kind == STRUCT:
            self._struct(depth)
        elif kind in {MAP, SET, LIST}:
            kinds = [self._number(">b") for _ in range(2 if kind == MAP else 1)]
            for _ in range(self._number(">i")):
                for element in kinds:
                    self._value(element, depth + 1)
        else:
            raise ValueError(f"a value of the unknown type {kind}")
