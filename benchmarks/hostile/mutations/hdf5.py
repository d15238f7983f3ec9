"""Damage to HDF5: bytes of its structures, and files rebuilt with other datasets, types and texts."""

from __future__ import annotations

import io
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from benchmarks.hostile.mutations.blobs import INTEGERS, mutate_bytes
from benchmarks.hostile.mutations.json_values import mutate_json

if TYPE_CHECKING:
    import random

_STRUCTURE = re.compile(
    rb"\x89HDF|TREE|SNOD|HEAP|OHDR|OCHK|GCOL|FRHP|FSHD|BTHD|BTLF|BTIN|\x01\x00[\x01-\x20]\x00[\x01-\x08]\x00\x00\x00"
)
"""Signatures of the structures around the numbers: superblock, B-trees, heaps, object headers."""


def mutate_hdf5(rng: random.Random, content: bytes) -> bytes:
    """Return a file with a structure damaged, or rebuilt with something else in it."""
    choice = rng.random()
    if choice < 0.1:
        return mutate_bytes(rng, content)
    if choice < 0.75:
        return _structures(rng, content)
    try:
        return _rebuilt(rng, content)
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        return mutate_bytes(rng, content)


def _structures(rng: random.Random, content: bytes) -> bytes:
    damaged = bytearray(content)
    places = _places(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = min(rng.choice(places) + rng.randrange(160), len(damaged) - 8)
        if at < 0:
            break
        match rng.randrange(4):
            case 0:
                damaged[at] ^= 1 << rng.randrange(8)
            case 1:
                damaged[at] = rng.choice((0, 1, 2, 3, 127, 255))
            case 2:
                size = rng.choice((2, 4, 8))
                damaged[at : at + size] = (rng.choice(INTEGERS) % (1 << 8 * size)).to_bytes(size, "little")
            case _:
                damaged[at : at + 8] = rng.choice(places).to_bytes(8, "little")
    return bytes(damaged)


@lru_cache(256)
def _places(content: bytes) -> list[int]:
    """Return where structures begin; kept, since the same seeds are damaged over and over."""
    return [match.start() for match in _STRUCTURE.finditer(content)] or [0]


def _rebuilt(rng: random.Random, content: bytes) -> bytes:
    buffer = io.BytesIO(content)
    with h5py.File(buffer, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        owner = file[rng.choice([*names, "/"])]
        if owner.attrs and rng.random() < 0.6:
            _other_attribute(rng, owner)
        elif names:
            _other_member(rng, file, rng.choice(names))
    return buffer.getvalue()


def _other_attribute(rng: random.Random, owner: Any) -> None:
    key = rng.choice(sorted(owner.attrs))
    value = owner.attrs[key]
    if isinstance(value, str | bytes) and rng.random() < 0.75:
        text = value.encode() if isinstance(value, str) else value
        owner.attrs[key] = mutate_json(rng, text).decode("utf-8", "ignore").replace("\0", "")
        return
    other: Any = rng.choice(
        (1, 2.5, "x", b"\xff", np.zeros(3), np.array([b"a", b"\xff"]), h5py.Empty("f4"), ["x"])
    )
    owner.attrs[key] = other


def _other_member(rng: random.Random, file: Any, name: str) -> None:
    match rng.choice(("delete", "dataset", "dataset", "dataset", "group", "link", "loop")):
        case "delete":
            del file[name]
        case "dataset":
            del file[name]
            _dataset(rng, file, name)
        case "group":
            del file[name]
            file.create_group(name)
        case "link":
            del file[name]
            file[name] = rng.choice((h5py.SoftLink("/nowhere"), h5py.ExternalLink("/etc/passwd", "/")))
        case "loop":
            file[f"{name}/loop"] = file["/"]


def _dataset(rng: random.Random, file: Any, name: str) -> None:
    dtype = rng.choice(("f2", "f4", ">f8", "i1", "u8", "?", "c8", "S3", h5py.string_dtype(),
                        h5py.vlen_dtype("f4"),
                        np.dtype([("a", "f4"), ("b", "i4")])))  # fmt: skip
    shape = rng.choice(((), (0,), (3,), (1, 0, 4), (2, 3, 4), (1,) * 32, (2**20, 2**10), (2**40,)))
    large = int(np.prod(shape, dtype=object)) > 1 << 16
    chunks = tuple(min(size, 64) for size in shape) if large else None
    filters = {"compression": "gzip"} if large and rng.random() < 0.5 else {}
    file.create_dataset(name, shape, dtype, chunks=chunks, **filters)
