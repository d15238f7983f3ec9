"""Protocol buffers by hand, for messages that no library writes."""

from __future__ import annotations


def wire_bytes(field: int, content: bytes) -> bytes:
    """Return a field that holds bytes, a text or a message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """Return a number to the base of 128."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])
