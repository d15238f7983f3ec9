"""Checksums of files that Netweave writes for other programs, whose formats have none.

Beside ``net_iter_20.caffemodel`` and ``net_iter_20.solverstate`` of a run lies ``net_iter_20.sha256``, in the
form of the tool ``sha256sum``; beside SINGA's ``step300-worker0`` lies ``step_iter_300.sha256``. Beside the
weights of a converted net, ``net.caffemodel``, lies ``net.caffemodel.sha256``. A run reads the files only if
they are as they were written; who only looks at a net is told (docs/decisions/0151, 0174).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from netweave.errors import ReadError

SUFFIX = ".sha256"

CHANGED = (
    "was changed since Netweave wrote it (its checksum does not match); if nobody edited it, it is damaged"
)
"""Said of a net's file that is not as it was written: a note, since it may have been edited on purpose."""

_LISTED = (
    re.compile(r"(?P<prefix>.*)_iter_(?P<iteration>\d{1,18})\..*"),
    # SINGA's own name of a checkpoint, beside which lies Netweave's step_iter_300.checkpoint
    re.compile(r"(?P<prefix>.*?)(?P<iteration>\d{1,18})-worker\d+"),
    re.compile(r"(?P<prefix>.+)-(?P<iteration>\d{4,18})\.params"),  # MXNet's, padded with zeros
)
"""Names of files that a run writes, with prefix and iteration, which name the list of checksums."""


def checksum_lines(digests: Mapping[str, str]) -> bytes:
    r"""Return the content of a file of checksums.

    Args:
        digests: SHA-256 in hexadecimal digits, by the name of the file.

    >>> checksum_lines({"a.caffemodel": "00" * 32}).decode()
    '0000000000000000000000000000000000000000000000000000000000000000 *a.caffemodel\n'
    """
    return "".join(f"{digest} *{name}\n" for name, digest in digests.items()).encode()


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksum(path: Path) -> None:
    """Write the checksum of a file beside it."""
    path.with_name(path.name + SUFFIX).write_bytes(checksum_lines({path.name: digest_of(path)}))


def is_as_written(path: Path) -> bool:
    """Return whether a file is as the checksums beside it say; one without them is."""
    return path.is_file() and _differing_list(path) is None


def require_as_written(path: Path) -> None:
    """Check a file against the checksums beside it; without such a list it passes.

    Args:
        path: The file, or several with commas between.

    Raises:
        ReadError: It is not as it was written, or the list is damaged or lacks it.
    """
    if "," in str(path) and not path.is_file():
        for name in str(path).split(","):
            require_as_written(Path(name))
        return
    if path.is_file() and (listing := _differing_list(path)) is not None:
        raise ReadError(
            f"is damaged: its checksum is not the one in {listing.name}; use an earlier file, or remove "
            f"{listing.name} if the change is intended",
            place=str(path),
        )


def _differing_list(path: Path) -> Path | None:
    """Return a list beside a file that lacks its checksum or has another; None if there is no such list."""
    for listing in _lists_of(path):
        if not listing.is_file():
            continue
        lines = listing.read_bytes().splitlines()
        expected = {name: digest for digest, _, name in (line.partition(b" *") for line in lines)}
        if expected.get(path.name.encode()) != digest_of(path).encode():
            return listing
    return None


def _lists_of(path: Path) -> Iterator[Path]:
    """Yield the lists that would hold a file's checksum: its own, and that of a run's iteration."""
    yield path.with_name(path.name + SUFFIX)
    for pattern in _LISTED:
        if match := pattern.fullmatch(path.name):
            yield path.with_name(f"{match['prefix']}_iter_{int(match['iteration'])}{SUFFIX}")
            return
