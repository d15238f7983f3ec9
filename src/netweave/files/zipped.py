"""Files out of a zip archive from a stranger: flat, under safe names, no more than there is room for."""

from __future__ import annotations

import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from netweave.errors import ReadError
from netweave.files.library_errors import reason_of

MAX_MEMBERS = 64
CHUNK_BYTES = 1 << 20

_UNSAFE = re.compile(r"[^\w.+@ -]", re.ASCII)

IGNORED_FOLDERS = ("__MACOSX",)
"""What systems add to archives by themselves, besides hidden files."""


_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError),
    *(KeyError, OverflowError, ValueError),
)
"""What zipfile raises: a RuntimeError for an encrypted member, a KeyError for one that is not there."""


@contextmanager
def zip_errors(place: str, what: str = "a complete archive") -> Iterator[None]:
    """Turn what zipfile and its decompressors raise into a ReadError.

    Args:
        place: The archive, for messages.
        what: What it should be.

    Raises:
        ReadError: The archive is damaged, encrypted, or packed in a way that is not read.
    """
    try:
        yield
    except _ERRORS as error:
        raise ReadError(
            f"is not {what} ({reason_of(error)}); was it copied or downloaded whole?", place=place
        ) from error


PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What writers of nets and arrays use; zipfile unpacks the others in one piece, however large that is."""


def open_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> IO[bytes]:
    """Open a member whose pieces take no more memory than is asked for.

    Raises:
        zipfile.BadZipFile: It is packed in another way than with Deflate.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    if info.compress_type not in PACKINGS:
        raise zipfile.BadZipFile(f"{info.filename!r:.80} is packed with method {info.compress_type}")
    return archive.open(info)


def read_member(archive: zipfile.ZipFile, member: str | zipfile.ZipInfo) -> bytes:
    """Return a member, never more than the size that the archive declares, which is checked before.

    ``ZipFile.read`` unpacks all that is there first, and then cuts it to that size: an archive that says
    3 bytes and unpacks to a gigabyte would fill the memory.

    Raises:
        zipfile.BadZipFile: It is damaged, or packed in another way than with Deflate.
    """
    info = archive.getinfo(member) if isinstance(member, str) else member
    with open_member(archive, info) as file:
        return file.read(info.file_size)


def unpack(archive: Path, folder: Path, *, max_bytes: int) -> list[Path]:
    """Write the files of an archive into a folder and return them; folders in the archive are left out.

    Nothing is written outside of the folder, whatever the members are called. Sizes are counted as they
    come out, since an archive may lie about them.

    Args:
        archive: The zip archive.
        folder: Where its files go; none there has the name of one of them.
        max_bytes: Bytes that all files may have together.

    Raises:
        ReadError: It is damaged, encrypted, too large, or holds too many files or two of one name.
    """
    place = str(archive)
    with zip_errors(place), zipfile.ZipFile(archive) as opened:
        members = dict(_named(opened, place))
        left = max_bytes
        for name, member in members.items():
            left -= _extract(opened, member, folder / name, left, place)
    return [folder / name for name in members]


def _named(opened: zipfile.ZipFile, place: str) -> Iterator[tuple[str, zipfile.ZipInfo]]:
    """Yield the members that are files, by the last part of their names."""
    seen: set[str] = set()
    for member in opened.infolist():
        folders = member.filename.replace("\\", "/").split("/")
        name = _UNSAFE.sub("_", folders.pop())
        if not name or name.startswith(".") or set(folders) & set(IGNORED_FOLDERS):
            continue
        if name in seen:
            raise ReadError(f"contains two files called {name!r}; give the files of one net", place=place)
        seen.add(name)
        if len(seen) > MAX_MEMBERS:
            raise ReadError(f"holds more than {MAX_MEMBERS} files; give those of one net", place=place)
        yield name, member
    if not seen:
        raise ReadError("is an empty archive", place=place)


def _extract(opened: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path, left: int, place: str) -> int:
    """Write one file and return its size in bytes."""
    with open_member(opened, member) as source, path.open("xb") as target:
        while piece := source.read(CHUNK_BYTES):
            if target.tell() + len(piece) > left:
                raise ReadError(
                    "unpacks to more than is allowed here; unpack it and give its files", place=place
                )
            target.write(piece)
        return target.tell()
