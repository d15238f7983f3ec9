"""Damage to texts: tokens are replaced by others of their kind, lines and blocks repeated or taken out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from benchmarks.hostile.mutations.blobs import mutate_bytes

if TYPE_CHECKING:
    import random

NUMBERS = (
    "-1", "0", "1", "2", "3", "5", "7", "13", "255", "65536", "2147483647", "2147483648", "4294967296",
    "-2147483649", "9223372036854775807", "9223372036854775808", "1" + "0" * 400, "9" * 5000, "1e400", "-0.0",
    "1e-40", "nan", "inf", "0x10", "1_0", "٣", "", "1.5.2",
)  # fmt: skip
TEXTS = ("", "\0", "../../../../etc/hostname", "x" * 5000, "\\xff", "\\ud800", "(", "(1,", "(2147483648, 1)",
         "None", "[" * 200, "\x1b[31m", "a/b", "é" * 10)  # fmt: skip

_TOKEN = re.compile(
    r'(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>-?\d+(?:\.\d+)?(?:e-?\d+)?)|(?P<word>[A-Za-z_]\w+)|'
    r"(?P<mark>[^\w\s])"
)
_KINDS = ("number", "number", "number", "number", "string", "word", "mark")


def mutate_text(rng: random.Random, content: bytes) -> bytes:
    """Return a text with some tokens or lines replaced; sometimes one with bytes damaged."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, content)
    text = content.decode("utf-8", "surrogateescape")
    text = _lines(rng, text) if rng.random() < 0.25 else _tokens(rng, text)
    return text.encode("utf-8", "surrogatepass")


def _tokens(rng: random.Random, text: str) -> str:
    tokens = _tokens_of(text)
    edits: dict[int, str] = {}
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        kind = rng.choice(_KINDS)
        same = [match for match in tokens if match.lastgroup == kind]
        if same:
            match = rng.choice(same)
            edits[match.start()] = _other(rng, kind, match[0], rng.choice(same)[0])
    pieces, at = [], 0
    for match in tokens:
        if match.start() in edits:
            pieces += [text[at : match.start()], edits[match.start()]]
            at = match.end()
    return "".join([*pieces, text[at:]])


@lru_cache(256)
def _tokens_of(text: str) -> list[re.Match[str]]:
    """Return the tokens of a text; kept, since the same seeds are damaged over and over."""
    return list(_TOKEN.finditer(text))


def _other(rng: random.Random, kind: str, token: str, same: str) -> str:
    if kind == "number":
        return rng.choice((same, rng.choice(NUMBERS), str(rng.randrange(20))))
    if kind == "string":
        return rng.choice((same, f'"{rng.choice(TEXTS)}"', f'"{rng.choice(NUMBERS)}"'))
    if kind == "word":
        return rng.choice((same, same, token[:-1], token * 2))
    return rng.choice((same, "", token * 2, "(1, ", token * 3000))


def _lines(rng: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if len(lines) < 2:
        return text * 2
    start = rng.randrange(len(lines))
    block = lines[start : start + rng.choice((1, 1, 2, 5, 10))]
    match rng.randrange(4):
        case 0:
            del lines[start : start + len(block)]
        case 1:
            lines[start:start] = block * rng.choice((1, 1, 2, 50))
        case 2:
            at = rng.randrange(len(lines))
            lines[at:at] = block
        case _:
            at = rng.randrange(len(lines))
            lines[start], lines[at] = lines[at], lines[start]
    return "".join(lines)
