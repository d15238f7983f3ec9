"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import itertools
import os
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from netweave.errors import NetweaveError, UsageError, WriteError
from netweave.files.checksums import write_checksum

if TYPE_CHECKING:
    from types import TracebackType

    from netweave.graph import Graph


# Everything that Netweave writes goes through here. New files are written into a folder of their own beside
# the old ones, ``.NAME.unfinished``, flushed to the disk, and moved to their places. Several files that
# belong together, such as a net and its weights, are put in force by one rename, that of the folder to
# ``.NAME.complete``; only then are they moved out of it. Whoever finds such a folder, since the process was
# killed between two moves, makes the remaining ones: the next writer, and the next reader of ``NAME``.
#
# The folder is locked while its process lives; the next writer of ``NAME`` removes that of a dead process.
#
# Files that grow while a run goes on (timelines, event files, tables of a run) are written in place, since
# they are of use before they are complete: a reader takes what is whole; see ``writing``.

if sys.platform != "win32":
    import fcntl


ADVICE = {
    errno.ENOSPC: "free some space there, or write to another disk",
    errno.EDQUOT: "remove some of your files there, or write to another disk",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f), or write to another disk",
    errno.EROFS: "write to another folder",
    errno.EACCES: "write to a folder that you may change",
    errno.EPERM: "write to a folder that you may change",
    errno.ENOENT: "make its folder first",
    errno.ENOTDIR: "give the name of a file in a folder",
    errno.EISDIR: "give the name of a file",
    errno.ENAMETOOLONG: "give a shorter name",
    errno.EIO: "the disk may be failing; write to another one",
}
"""What to do about a reason of the system for not writing a file."""

STORES = frozenset({"lmdb", "h5py", "safetensors_rust"})
"""Libraries whose own errors, while they write, are reasons why a file cannot be written."""

MAX_NAME_BYTES = 200
"""Of a file's name in the name of its folder; file systems take 255 bytes, and more is added here."""


_COMPLETE = ".complete"


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn what the system and the libraries of stores say while a file is written into a WriteError.

    Args:
        path: The file or folder, for messages.

    Raises:
        WriteError: It cannot be written.
    """
    try:
        yield
    except NetweaveError:
        raise
    except Exception as error:
        code = _code(error)
        library = type(error).__module__.partition(".")[0]
        if code is None and not isinstance(error, OSError) and library not in STORES:
            raise
        said = os.strerror(code) if code else str(error) or type(error).__name__
        advice = ADVICE.get(code or 0)
        raise WriteError(f"{path}: cannot be written: {said}" + (f"; {advice}" if advice else "")) from error


def _code(error: Exception) -> int | None:
    """Return the system's number for an error; libraries that wrap it repeat at least its words."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    said = str(error)
    return next((code for code in ADVICE if os.strerror(code) in said), None)


class Replacement:
    """New files that take the places of old ones together.

    Use it in a ``with`` block: leaving it puts the files in force, leaving it by an error removes them.

    Args:
        path: The file or folder that the others belong to, such as the net of weights.

    Attributes:
        folder: Where the new files are written, under their own names.

    Raises:
        WriteError: The folder of the files cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with writing(path):
            finish_moves(path)
            folder, lock = _locked_folder(path)
        self.folder = folder
        self._lock: int | None = lock

    def commit(self) -> None:
        """Flush the new files and put them in force.

        Raises:
            WriteError: They cannot be written; the old files are untouched.
        """
        try:
            with writing(self._path):
                self._move()
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the new files, unless they are in force; a second call does nothing."""
        if self._lock is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self._lock = None

    def _move(self) -> None:
        names = sorted(file.name for file in self.folder.iterdir())
        for name in names:
            new, old = self.folder / name, self._path.with_name(name)
            if old.is_dir() and not new.is_dir():  # asked for before any of them is moved
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(old))
            _keep_mode(old, new)
            _flush(new)
        _flush_names(self.folder)
        if names == [self._path.name]:
            os.replace(self.folder / self._path.name, self._path)  # noqa: PTH105
        else:
            self._rename_folder()
            finish_moves(self._path)
        _flush_names(self._path.parent)

    def _rename_folder(self) -> None:
        while True:
            try:
                self.folder.rename(_complete(self._path))
            except OSError as error:
                if error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
                    raise
                finish_moves(self._path)  # another process has just put files of the same names in force
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.commit()
            return
        self.discard()
        if isinstance(error, Exception):
            with writing(self._path):
                raise error


@contextmanager
def replacing_file(path: Path) -> Iterator[Path]:
    """Yield where a new file is written, which takes the place of the old one when the block ends.

    A device or a pipe is no file that could be replaced, and is written to.

    Raises:
        WriteError: It cannot be written; the old file is untouched.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        with writing(path):
            yield path
    else:
        with Replacement(path) as new:
            yield new.folder / path.name


def write_file(path: str | Path, content: str | bytes) -> None:
    """Write a file, text as UTF-8; the old one stays whole until the new one is.

    Raises:
        WriteError: It cannot be written; the old file is untouched.
    """
    with replacing_file(Path(path)) as new:
        new.write_bytes(content.encode() if isinstance(content, str) else content)


def finish_moves(path: Path) -> None:
    """Move files to their places that are in force, but whose process was killed before it moved them all.

    Only a folder of one's own is touched; a link, which might lead elsewhere, is not.

    Raises:
        OSError: They cannot be moved.
    """
    folder = _complete(path)
    try:
        status = folder.lstat()
    except (OSError, ValueError):  # there is none, as nearly always; or no file can have this name
        return
    if not stat.S_ISDIR(status.st_mode) or (sys.platform != "win32" and status.st_uid != os.geteuid()):
        return
    # the main file last: whoever sees it finds what belongs to it
    for file in sorted(folder.iterdir(), key=lambda file: (file.name == path.name, file.name)):
        with contextlib.suppress(FileNotFoundError):  # another process moves them, too
            os.replace(file, path.with_name(file.name))  # noqa: PTH105
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()


def finish_all_moves(start: Path) -> None:
    """Do as ``finish_moves`` for all files whose path begins so."""
    for folder in start.parent.glob(f".{glob.escape(start.name)}*{_COMPLETE}"):
        with contextlib.suppress(PermissionError):  # they wait for whoever may
            finish_moves(folder.with_name(folder.name[1:].removesuffix(_COMPLETE)))


def _complete(path: Path) -> Path:
    return path.with_name(f".{_short(path.name)}{_COMPLETE}")


def _short(name: str) -> str:
    """Return a name, or a digest of one that leaves no room for what is added to it."""
    encoded = os.fsencode(name)
    return name if len(encoded) <= MAX_NAME_BYTES else hashlib.sha256(encoded).hexdigest()


def _locked_folder(path: Path) -> tuple[Path, int]:
    """Make an empty folder beside a file, removing that of a dead process; return it, and its lock."""
    for number in itertools.count():
        folder = path.with_name(f".{_short(path.name)}{f'.{number}' if number else ''}.unfinished")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if (lock := _lock(folder)) is None:
                continue
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            folder.mkdir(mode=0o700, exist_ok=True)
        if (lock := _lock(folder)) is not None:
            return folder, lock
    raise AssertionError("itertools.count() ends")


def _lock(folder: Path) -> int | None:
    """Lock a folder; return None where another process holds it or has removed it meanwhile."""
    if sys.platform == "win32":  # no locks of folders; a number stands for one that is held
        return os.open(os.devnull, os.O_RDONLY)
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        held = os.path.samestat(folder.stat(), os.fstat(descriptor))
    except (BlockingIOError, FileNotFoundError):
        held = False
    except OSError:  # no locks here, as on some network file systems
        held = True
    if not held:
        os.close(descriptor)
        return None
    return descriptor


def _keep_mode(old: Path, new: Path) -> None:
    """Give a new file the permissions of the old one."""
    with contextlib.suppress(OSError):
        if old.is_file():
            shutil.copymode(old, new)


def _flush(path: Path) -> None:
    """Have a file, or the files of a folder, on the disk."""
    if path.is_dir():
        for inner in path.iterdir():
            _flush(inner)
        _flush_names(path)
        return
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _flush_names(folder: Path) -> None:
    """Have the names in a folder on the disk, so that a power cut takes none back."""
    with contextlib.suppress(OSError):  # not every system opens folders
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """A net in files.

    Attributes:
        net: The file that describes the net.
        weights: The file of its weights, if it is a separate one.
        entry: Name of the class in a file of code that is the net.
        inputs: The name that an input of the net has in the file, where it differs; None if the file itself
            declares the shapes of its inputs.
        one_size: Whether the file is for one size of images: rounding rules are resolved for that size.
    """

    net: Path
    weights: Path | None = None
    entry: str | None = None
    inputs: Mapping[str, str] | None = field(default_factory=dict)
    one_size: bool = False


def require_weights(graph: Graph, *, random_weights: bool) -> None:
    """Reject a net that was read without its weights, unless random ones are asked for.

    Raises:
        UsageError: Some parameters have no weights.
    """
    missing = [key for key, parameter in graph.parameters.items() if not parameter.loaded]
    if missing and not random_weights:
        named = ", ".join(map(repr, missing[:3])) + (", ..." if len(missing) > 3 else "")
        raise UsageError(
            f"net {graph.name!r} has no weights for {len(missing)} of {len(graph.parameters)} parameters "
            f"({named}): give their file, or ask for random ones (--random-weights, random_weights=True)"
        )


@contextmanager
def replacing_files(path: Path) -> Iterator[Path]:
    """Yield a folder for a new file and those beside it; they replace the old ones when the block ends.

    The files beside it get checksums (``checksums``).

    Raises:
        WriteError: They cannot be written; the old files are untouched.
    """
    with Replacement(path) as new:
        yield new.folder
        for file in sorted(new.folder.iterdir()):
            if file.name != path.name:  # weights in a file of their own, whose formats have no checksum
                write_checksum(file)
