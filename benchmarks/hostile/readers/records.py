"""Every source of records, each record read."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.hostile.mutations import (
    mutate_bytes,
    mutate_hdf5,
    mutate_npy,
    mutate_text,
    mutate_wire,
    mutate_zip,
)
from benchmarks.hostile.readers.reader import Reader, Seed
from netweave.training.data.transforms.arithmetic import read_means
from tests.hostile.stores import Store, stores
from tests.training.data.make import field, kvfile, singa_record

if TYPE_CHECKING:
    import random

    from benchmarks.hostile.mutations import Mutation

_MUTATIONS: dict[str, Mutation] = {
    "hdf5": mutate_hdf5,
    "hdf5 in chunks": mutate_hdf5,
    "npz": mutate_zip,
    "numpy": mutate_npy,
}


def readers() -> list[Reader]:
    """Return a reader for each kind of store, and one for files of means."""
    made = [Reader(f"data.{name}", partial(_seeds, name)) for name in stores()]
    return [*made, Reader("data.means", _means)]


def _seeds(name: str) -> list[Seed]:
    store = stores()[name]
    mutation = _MUTATIONS.get(name, mutate_text if store.text else mutate_bytes)
    seeds = [_seed(store, mutation)]
    if name in {"lmdb", "record_lmdb"}:
        seeds.append(_seed(store, _mutate_lmdb))
    if name in {"kvfile", "shard"}:
        seeds.append(_seed(store, _mutate_kvfile))
    if name == "recordio":
        seeds.append(_seed(store, _mutate_recordio))
    return seeds


def _seed(store: Store, mutation: Mutation) -> Seed:
    return Seed(store.files, store.damaged, mutation, lambda folder: store.read())


def _mutate_kvfile(rng: random.Random, content: bytes) -> bytes:
    """Damage one value, and give it its right length."""
    parts, at = [], 0
    while at < len(content):
        size = int.from_bytes(content[at : at + 8], "little")
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + size
    chosen = rng.randrange(1, len(parts), 2)
    parts[chosen] = mutate_wire(rng, parts[chosen])
    return b"".join(len(part).to_bytes(8, "little") + part for part in parts)


def _mutate_recordio(rng: random.Random, content: bytes) -> bytes:
    """Damage one payload, and give it its right length."""
    parts, at = [], 0
    while at < len(content):
        size = int.from_bytes(content[at + 4 : at + 8], "little") & (1 << 29) - 1
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + (size + 3 & ~3)
    chosen = rng.randrange(len(parts))
    parts[chosen] = mutate_bytes(rng, parts[chosen])
    return b"".join(
        content[:4] + len(part).to_bytes(4, "little") + part + bytes(-len(part) % 4) for part in parts
    )


def _mutate_lmdb(rng: random.Random, content: bytes) -> bytes:
    """Damage a page of entries: the numbers in its header and its nodes."""
    damaged = bytearray(content)
    page = rng.randrange(len(content) // 4096) * 4096
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = page + rng.choice((rng.randrange(160), rng.randrange(4090)))
        value = rng.choice((0, 1, 2, 4, 8, 16, 255, 4096, 65535, rng.randrange(4096)))
        damaged[at : at + 2] = value.to_bytes(2, "little")
    return bytes(damaged)


def _means() -> list[Seed]:
    image = singa_record(data=np.arange(1, 91), shape=(3, 5, 6))
    sizes = b"".join(field(number, 0, size) for number, size in enumerate((1, 3, 5, 6), 1))
    caffes = sizes + field(5, 2, np.ones(90, "<f4").tobytes())
    contents = (kvfile({"mean": image}), field(1, 0, 0) + field(5, 2, image), caffes)
    mutations = (_mutate_kvfile, mutate_wire, mutate_wire)

    def read(folder: Path) -> object:
        read_means.cache_clear()
        return read_means("mean.bin")

    return [
        Seed({"mean.bin": content}, "mean.bin", mutation, read)
        for content, mutation in zip(contents, mutations, strict=True)
    ]
