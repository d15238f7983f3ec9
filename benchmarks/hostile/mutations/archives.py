"""Damage to zip archives: members of another content, name, size or compression, and broken directories."""

from __future__ import annotations

import io
import struct
import warnings
import zipfile
from functools import lru_cache
from typing import TYPE_CHECKING

from benchmarks.hostile.mutations.arrays import mutate_npy
from benchmarks.hostile.mutations.blobs import mutate_bytes
from benchmarks.hostile.mutations.hdf5 import mutate_hdf5
from benchmarks.hostile.mutations.json_values import mutate_json
from benchmarks.hostile.mutations.pickles import mutate_pickle

if TYPE_CHECKING:
    import random

NAMES = (
    "",
    "x",
    "../x",
    "/etc/x",
    "data.pkl",
    "x/data.pkl",
    "state.json",
    "a.npy",
    "a" * 3000,
    "\\",
    "x\x1b[2J",
)

_INNER = {".npy": mutate_npy, ".h5": mutate_hdf5, ".json": mutate_json, ".pkl": mutate_pickle}

_LOCAL, _CENTRAL = b"PK\x03\x04", b"PK\x01\x02"
_FIELDS = {"flags": (6, 8, "<H"), "method": (8, 10, "<H"), "crc": (14, 16, "<I"), "packed": (18, 20, "<I"),
           "size": (22, 24, "<I")}  # fmt: skip
"""Where a field lies in a local header and in an entry of the directory."""


def mutate_zip(rng: random.Random, content: bytes) -> bytes:
    """Return an archive with one member or its directory damaged."""
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, content)
    if choice < 0.25:
        return _headers(rng, content)
    if choice < 0.35:
        tail = content[-600:]
        return content[:-600] + mutate_bytes(rng, tail)
    members = read_members(content)
    _edit(rng, members)
    return write_members(members, compressed=rng.random() < 0.1)


def read_members(content: bytes) -> list[tuple[str, bytes]]:
    """Return the members of an archive."""
    return list(_members_of(content))


@lru_cache(256)
def _members_of(content: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return the members of an archive; kept, since the same seeds are damaged over and over."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return tuple((info.filename, archive.read(info)) for info in archive.infolist())


def write_members(members: list[tuple[str, bytes]], *, compressed: bool = False) -> bytes:
    """Return an archive of some members."""
    out = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", method) as archive:
        warnings.simplefilter("ignore")  # two members of one name are wanted
        for name, content in members:
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = method
            archive.writestr(entry, content)
    return out.getvalue()


def _edit(rng: random.Random, members: list[tuple[str, bytes]]) -> None:
    at = rng.randrange(len(members))
    name, content = members[at]
    match rng.choice(("content",) * 8 + ("delete", "rename", "exchange", "bomb")):
        case "content":
            inner = _INNER.get(name[name.rfind(".") :], mutate_bytes)
            members[at] = name, inner(rng, content)
        case "delete":
            del members[at]
        case "rename":
            members[at] = rng.choice((*NAMES, *(other for other, _ in members if other != name))), content
        case "exchange":
            other = rng.randrange(len(members))
            members[at], members[other] = (name, members[other][1]), (members[other][0], content)
        case "bomb":
            members[at] = name, content + bytes(rng.choice((1 << 16, 1 << 20)))


def _headers(rng: random.Random, content: bytes) -> bytes:
    """Change a field of a member in its local header, in the directory, or in both."""
    damaged = bytearray(content)
    local, central, form = _FIELDS[rng.choice(sorted(_FIELDS))]
    value = rng.choice((0, 1, 8, 9, 99, 0x8000, 2**16 - 1, 2**31, 2**32 - 1)) % (
        1 << 8 * struct.calcsize(form)
    )
    for signature, offset in rng.choice(
        (((_LOCAL, local),), ((_CENTRAL, central),), ((_LOCAL, local), (_CENTRAL, central)))
    ):
        starts = (
            [at for at in range(len(content) - 46) if content[at : at + 4] == signature]
            if len(content) < 1 << 16
            else []
        )
        if starts:
            struct.pack_into(form, damaged, rng.choice(starts) + offset, value)
    return bytes(damaged)
