"""Damage to ``.npy`` and ``.safetensors``: their headers as texts, with right lengths around them."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from benchmarks.hostile.mutations.blobs import mutate_bytes
from benchmarks.hostile.mutations.json_values import mutate_json
from benchmarks.hostile.mutations.text import mutate_text

if TYPE_CHECKING:
    import random

HEADERS = (
    "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 140737488355328, 140737488355328), }",
    "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1, 1, 4611686018427387904), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (True, 2.0), }",
    "{'descr': [('a', '<f4'), ('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f1', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<U9999999', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '|V0', 'fortran_order': False, 'shape': (99999999999,), }",
    "{'descr': '<M8[x]', 'fortran_order': False, 'shape': (1,), }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': " + "(" * 300 + ")" * 300 + ", }",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 70 + "), }",
    "[" * 3000,
    "-" * 3000 + "1",
    "{" * 200,
    "{[]: 1}",
    "{'descr': " + "9" * 5000 + "}",
)  # fmt: skip


def mutate_npy(rng: random.Random, content: bytes) -> bytes:
    """Return a file of one array with another header, or damaged."""
    if rng.random() < 0.25 or content[:6] != b"\x93NUMPY" or len(content) < 12:
        return mutate_bytes(rng, content)
    wide = content[6] > 1
    size = int.from_bytes(content[8:12] if wide else content[8:10], "little")
    start = 12 if wide else 10
    header, rest = content[start : start + size], content[start + size :]
    header = rng.choice(HEADERS).encode() if rng.random() < 0.3 else mutate_text(rng, header)
    header = header[: 2**16 - 2] + b"\n"
    length = struct.pack("<I" if wide else "<H", len(header))
    return content[:8] + length + header + rest


def mutate_safetensors(rng: random.Random, content: bytes) -> bytes:
    """Return a file of arrays with another header, or damaged."""
    size = int.from_bytes(content[:8], "little")
    if rng.random() < 0.2 or not 0 < size <= len(content) - 8:
        return mutate_bytes(rng, content)
    header, rest = mutate_json(rng, content[8 : 8 + size]), content[8 + size :]
    length = len(header) + (rng.choice((0, 0, 0, 0, 0, 0, 1, -1, 2**40)))
    return struct.pack("<Q", max(0, length)) + header + rest
