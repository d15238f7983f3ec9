"""A checksum at the end of the ONNX files that Netweave writes, in a field that other programs skip.

The field is the last of the message: a number that ONNX does not use, and the SHA-256 of all bytes before it.
A program that edits the model may keep the field, so a wrong checksum is a note and not an error.
"""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

SEAL_FIELD = 20_260
"""Far beyond the numbers of ``ModelProto``, and below those that protobuf reserves."""

_KEY = b"\xa2\xf2\x09\x20"
"""Field ``SEAL_FIELD``, of 32 bytes."""

_BYTES = len(_KEY) + 32

_PART_BYTES = 1 << 20


def write_sealed(path: Path, parts: Iterable[bytes | memoryview]) -> None:
    """Write a model, given in parts, with the checksum at its end."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for part in parts:
            digest.update(part)
            file.write(part)
        file.write(_KEY + digest.digest())


def is_as_sealed(path: Path) -> bool:
    """Return whether a model is as Netweave wrote it; one without a checksum is."""
    with path.open("rb") as file:
        num_bytes = file.seek(0, os.SEEK_END) - _BYTES
        if num_bytes < 0:
            return True
        file.seek(num_bytes)
        found = file.read(_BYTES)
        if not found.startswith(_KEY):
            return True
        file.seek(0)
        digest = hashlib.sha256()
        while num_bytes and (part := file.read(min(num_bytes, _PART_BYTES))):
            digest.update(part)
            num_bytes -= len(part)
        return digest.digest() == found[len(_KEY) :]
