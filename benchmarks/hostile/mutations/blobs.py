"""Damage that knows nothing of the format: bytes are flipped, set, cut out, copied, or cut off."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

INTEGERS = (0, 1, 2, 3, 7, 64, 127, 128, 255, 256, 4096, 65535, 2**20, 2**31 - 1, 2**31, 2**32 - 1, 2**40)
"""Sizes and counts at which readers differ."""

MAX_EDITS = 5


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return the content after up to ``MAX_EDITS`` edits."""
    damaged = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, MAX_EDITS))):
        if not damaged:
            return rng.randbytes(rng.randrange(1, 40))
        _EDITS[rng.randrange(len(_EDITS))](rng, damaged)
    return bytes(damaged)


def _flip(rng: random.Random, damaged: bytearray) -> None:
    damaged[_place(rng, damaged)] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, damaged: bytearray) -> None:
    damaged[_place(rng, damaged)] = rng.choice((0, 1, 127, 128, 254, 255, rng.randrange(256)))


def _integer(rng: random.Random, damaged: bytearray) -> None:
    size = rng.choice((2, 4, 8))
    value = rng.choice(INTEGERS) * rng.choice((1, 1, 1, -1)) % (1 << 8 * size)
    at = _place(rng, damaged)
    damaged[at : at + size] = value.to_bytes(size, rng.choice(("little", "big")))


def _delete(rng: random.Random, damaged: bytearray) -> None:
    at = _place(rng, damaged)
    del damaged[at : at + rng.choice((1, 2, 4, 8, rng.randrange(1, 64)))]


def _insert(rng: random.Random, damaged: bytearray) -> None:
    at = _place(rng, damaged)
    damaged[at:at] = rng.randbytes(rng.choice((1, 2, 4, 12)))


def _copy(rng: random.Random, damaged: bytearray) -> None:
    start, at = _place(rng, damaged), _place(rng, damaged)
    piece = damaged[start : start + rng.randrange(1, 64)]
    at_end = at if rng.random() < 0.5 else at + len(piece)
    damaged[at:at_end] = piece


def _cut(rng: random.Random, damaged: bytearray) -> None:
    del damaged[_place(rng, damaged) :]


def _place(rng: random.Random, damaged: bytearray) -> int:
    """Return a place: half of them near the begin, where the structure of most formats is."""
    size = len(damaged)
    return rng.randrange(size if rng.random() < 0.5 else min(size, 256))


_EDITS = (_flip, _flip, _set, _integer, _integer, _delete, _insert, _copy, _cut)
