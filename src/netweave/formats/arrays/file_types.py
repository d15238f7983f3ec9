"""Recognition of files of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from netweave.files.gguf import GGUF

if TYPE_CHECKING:
    from pathlib import Path

NPY = b"\x93NUMPY"
"""First bytes of a file of one array."""

ZIP = b"PK\x03\x04"
"""First bytes of an archive, which a ``.npz`` is."""


def kind_of(path: Path, head: bytes) -> str | None:
    """Return ``npy``, ``npz``, ``safetensors`` or ``gguf``; None for a file that is none of them.

    Args:
        path: The file.
        head: Its first bytes, 9 or more.
    """
    if head.startswith(NPY):
        return "npy"
    if head.startswith(GGUF):
        return "gguf"
    suffix = path.suffix.lower()
    if suffix == ".npz" and head.startswith(ZIP):
        return "npz"
    if suffix == ".safetensors" and head[8:9] == b"{":
        return "safetensors"
    return None
