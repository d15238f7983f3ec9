"""Files of nets and results in the storage that the operator chose, and on this machine for a reader."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction

from netweave.web.work import leases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import IO

    from netweave.web.models import Net, OwnInput

SCRATCH_PREFIX = "netweave-job-"

SCRATCH_GRACE_S = 10.0
"""A worker has locked its folder long before this after making it."""


@contextmanager
def scratch() -> Iterator[Path]:
    """Give an empty folder for one job; it goes when the job ends.

    Its worker holds a lock on it, which the kernel releases however the worker ends.
    """
    with tempfile.TemporaryDirectory(prefix=SCRATCH_PREFIX, ignore_cleanup_errors=True) as folder:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(folder).resolve()
        finally:
            os.close(lock)


def remove_left_scratch() -> int:
    """Remove the folders of jobs whose worker was killed; return how many there were."""
    count = 0
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        with suppress(OSError):  # another worker removes it at the same time
            if _is_left(path):
                shutil.rmtree(path, ignore_errors=True)
                count += 1
    return count


def _is_left(path: Path) -> bool:
    """Return whether a folder is a job's of this user, and no worker holds it."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return False
    if status.st_ctime > time.time() - SCRATCH_GRACE_S:
        return False
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


def lay_out(net: Net, folder: Path) -> list[Path]:
    """Put the files of a net into a folder, under the names that they came with."""
    folder.mkdir()
    paths = []
    for file in net.files.all():
        path = folder / file.name
        _copy(file.stored, path)
        paths.append(path)
    return paths


def lay_out_input(own: OwnInput, folder: Path) -> Path:
    """Put a file of inputs into a folder of its own, under the name that it came with."""
    folder.mkdir()
    path = folder / own.name
    _copy(own.stored, path)
    return path


def _copy(stored: str, path: Path) -> None:
    with suppress(NotImplementedError, OSError):
        os.link(default_storage.path(stored), path)  # no copy where both are on one disk
        return
    with default_storage.open(stored, "rb") as source, path.open("wb") as target:
        copy(source, target)


def copy(source: IO[bytes], target: IO[bytes]) -> None:
    """Copy a stream piece by piece."""
    shutil.copyfileobj(source, target, 1 << 20)


def keep(name: str, content: bytes) -> str:
    """Store a document, compressed; return the name that it has in the storage."""
    return default_storage.save(name, ContentFile(gzip.compress(content, 5)))


def kept_bytes(name: str) -> bytes:
    """Return a stored document, still compressed."""
    with default_storage.open(name, "rb") as file:
        return bytes(file.read())


def kept_json(name: str) -> Any:
    """Return a stored document."""
    return json.loads(kept_text(name))


def kept_text(name: str) -> str:
    """Return a stored document as it was written."""
    return gzip.decompress(kept_bytes(name)).decode()


def delete_net(net: Net) -> None:
    """Delete a net with its files; comparisons with it keep their results."""
    with transaction.atomic():
        leases.hold(net)  # a file that arrives now finds no net, or is deleted with it
        names = [net.document, *net.files.values_list("stored", flat=True)]
        net.delete()
    drop(names)


def drop(names: Iterable[str]) -> None:
    """Remove stored files; one that is gone already is passed over."""
    for name in names:
        if name:
            with suppress(FileNotFoundError):
                default_storage.delete(name)
