"""Ways to damage a file: each takes a generator and the bytes, and returns other bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.hostile.mutations.archives import mutate_zip
from benchmarks.hostile.mutations.arrays import mutate_npy, mutate_safetensors
from benchmarks.hostile.mutations.blobs import mutate_bytes
from benchmarks.hostile.mutations.hdf5 import mutate_hdf5
from benchmarks.hostile.mutations.json_values import mutate_json
from benchmarks.hostile.mutations.pickles import mutate_pickle
from benchmarks.hostile.mutations.text import mutate_text
from benchmarks.hostile.mutations.wire import mutate_wire

if TYPE_CHECKING:
    import random

    Mutation: TypeAlias = "Callable[[random.Random, bytes], bytes]"

__all__ = [
    "mutate_bytes",
    "mutate_hdf5",
    "mutate_json",
    "mutate_npy",
    "mutate_pickle",
    "mutate_safetensors",
    "mutate_text",
    "mutate_wire",
    "mutate_zip",
]
