"""Damage to pickles: opcodes are taken out, repeated, exchanged or given other arguments."""

from __future__ import annotations

import pickletools
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.hostile.mutations.blobs import mutate_bytes
from tests.hostile.pickle_attacks import pickles

if TYPE_CHECKING:
    import random

SNIPPETS = (
    b"N", b"}", b"]", b")", b"(", b"0", b"1", b"2", b"K\x00", b"J\xff\xff\xff\xff", b"\x8a\x08" + b"\x7f" * 8,
    b"\x8a\x09" + b"\xff" * 8 + b"\x00", b"G\x7f\xf0\0\0\0\0\0\0", b"X\x01\0\0\0x", b"\x85", b"\x86", b"\x87",
    b"R", b"b", b"Q", b"s", b"u", b"a", b"e", b"t", b"\x81", b"h\x00", b"q\x00", b"\x94", b"\x93", b"\x88",
    b"cos\nsystem\n", b"ctorch\nFloatStorage\n", b"ccollections\nOrderedDict\n", b"I1e5\n",
    b"L" + b"9" * 5000 + b"L\n",
    b"P0\n", b"(I1\nI2\nl",
)  # fmt: skip
MAX_ATTACK_BYTES = 2000


@cache
def attacks() -> tuple[bytes, ...]:
    """Return pickles of a few bytes that are known to stall whoever hashes or prints what they build."""
    return tuple(content for content in pickles().values() if len(content) < MAX_ATTACK_BYTES)


def mutate_pickle(rng: random.Random, content: bytes) -> bytes:
    """Return a pickle with some opcodes changed; sometimes one that is made to do harm."""
    if rng.random() < 0.05:
        return mutate_bytes(rng, rng.choice(attacks()))
    if rng.random() < 0.1:
        return mutate_bytes(rng, content)
    opcodes = split(content)
    for _ in range(rng.choice((1, 1, 2, 3, 5))):
        _edit(rng, opcodes)
    return b"".join(opcodes)


def split(content: bytes) -> list[bytes]:
    """Return the opcodes of one or more pickles with their arguments, as bytes each; the rest as one."""
    opcodes: list[bytes] = []
    end = 0
    while end < len(content):
        starts = [end]
        try:
            starts += [end + at for _, _, at in pickletools.genops(content[end:]) if at]
        except (ValueError, UnicodeDecodeError):
            return [*opcodes, content[end:]]
        opcodes += [content[start:stop] for start, stop in pairwise(starts)]
        opcodes.append(content[starts[-1] : starts[-1] + 1])  # STOP
        end = starts[-1] + 1
    return opcodes


def _edit(rng: random.Random, opcodes: list[bytes]) -> None:
    at = rng.randrange(len(opcodes))
    match rng.choice(
        ("replace", "replace", "insert", "delete", "repeat", "exchange", "argument", "argument")
    ):
        case "replace":
            opcodes[at] = rng.choice((rng.choice(SNIPPETS), rng.choice(opcodes)))
        case "insert":
            opcodes.insert(at, rng.choice(SNIPPETS))
        case "delete":
            if len(opcodes) > 1:
                del opcodes[at]
        case "repeat":
            opcodes[at:at] = opcodes[at : at + rng.choice((1, 2, 8))] * rng.choice((1, 2, 100))
        case "exchange":
            other = rng.randrange(len(opcodes))
            opcodes[at], opcodes[other] = opcodes[other], opcodes[at]
        case "argument":
            opcodes[at] = opcodes[at][:1] + mutate_bytes(rng, opcodes[at][1:] or b"\0")
