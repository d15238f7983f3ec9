"""Storage of the workbench."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import stat
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q
from django.utils import timezone
from django_tasks.base import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from netweave import api
from netweave.web.models import UNFINISHED, Comparison, File, Net, OwnInput, State, Upload, Workspace
from netweave.web.owners import LOCAL
from netweave.web.safety import forget_counts
from netweave.web.work import leases

if TYPE_CHECKING:
    from netweave.web.options import Options


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


# The quota is what the files of a workspace and its uploads under way take together. Room is taken in a
# transaction that holds the workspace's row, so that uploads at the same time cannot take the same room;
# with SQLite, transactions wait for one another anyway (``web.sqlite``).
#
# A small file takes its room in the transaction that keeps it, and needs no other: fifty people who upload
# in one instant wait for each other's transactions (decision 0201).

ABANDONED_AFTER = timedelta(minutes=5)
"""An upload of which nothing arrived for so long has lost its worker: the server ends connections that are
quiet for a tenth of it (``slow_clients``)."""

TOUCH_EVERY_S = 10.0


SMALL_BYTES = 256 << 10
"""Files up to this size are stored before their room is taken: one for each thread of the server at most."""

_TAKEN = f"""
    SELECT coalesce((SELECT sum(file.num_bytes) FROM {File._meta.db_table} file
                     JOIN {Net._meta.db_table} net ON net.id = file.net_id WHERE net.workspace_id = %s), 0)
         + coalesce((SELECT sum(num_bytes) FROM {OwnInput._meta.db_table} WHERE workspace_id = %s), 0)
         + coalesce((SELECT sum(num_bytes) FROM {Upload._meta.db_table} WHERE workspace_id = %s), 0)
"""
"""One question in place of three: all others who upload wait while it is asked."""


class RefusedError(Exception):
    """Something cannot be done as asked; the message is for the user."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file that arrives.

    Attributes:
        workspace: Whose it will be.
        name: Its name, for messages.
        stored: Its name in the storage.
        limit: So many bytes may come.
        upload: The room that it has; None for a small one, which takes its room when it is kept.
    """

    workspace: uuid.UUID
    name: str
    stored: str
    limit: int
    upload: Upload | None

    def keep(self, num_bytes: int) -> None:
        """Give the room to a row with the file's true size, made in the same transaction after this.

        Raises:
            RefusedError: There is no room for a small file.
        """
        if self.upload is not None:
            self.upload.delete()
        else:
            _check_room(self.workspace, self.name, num_bytes)


@contextmanager
def arriving(owner: Net | Workspace, name: str, num_bytes: int | None) -> Iterator[Arrival]:
    """Give a file that is about to arrive its place; if it is not kept, nothing of it stays.

    Args:
        owner: The net that it will belong to, or the workspace.
        name: Its name, for messages.
        num_bytes: Its size as announced; None takes all the room that one file may have.

    Raises:
        RefusedError: There is not as much room.
    """
    arrival = _arrival(owner, name, num_bytes)
    try:
        yield arrival
    except BaseException:  # a reset connection, a full disk, a worker that is stopped
        if arrival.upload is not None:
            release(arrival.upload)
        else:
            drop([arrival.stored])
        raise


def _arrival(owner: Net | Workspace, name: str, num_bytes: int | None) -> Arrival:
    if num_bytes is not None and is_small(num_bytes):
        return Arrival(_workspace(owner), name, _new_name(owner), num_bytes, None)
    upload = reserve(owner, name, num_bytes)
    return Arrival(upload.workspace_id, name, upload.stored, upload.num_bytes, upload)


def is_small(num_bytes: int | None) -> bool:
    """Return whether a file of an announced size, None if it was not, takes its room only when it is kept."""
    return num_bytes is not None and num_bytes <= min(SMALL_BYTES, settings.OPTIONS.max_file_mb << 20)


def reserve(owner: Net | Workspace, name: str, num_bytes: int | None) -> Upload:
    """Take room for a file that is about to arrive.

    Args:
        owner: The net that it will belong to, or the workspace.
        name: Its name, for messages.
        num_bytes: Its size as announced; None takes all the room that one file may have.

    Raises:
        RefusedError: There is not as much room.
    """
    release_abandoned()
    workspace = _workspace(owner)
    with transaction.atomic():
        limit = _check_room(workspace, name, num_bytes)
        return Upload.objects.create(
            workspace_id=workspace,
            stored=_new_name(owner),
            num_bytes=limit if num_bytes is None else num_bytes,
        )


def _workspace(owner: Net | Workspace) -> uuid.UUID:
    return owner.pk if isinstance(owner, Workspace) else owner.workspace_id


def _new_name(owner: Net | Workspace) -> str:
    folder = "inputs" if isinstance(owner, Workspace) else "nets"
    return f"{folder}/{owner.pk}/{uuid.uuid4().hex}"


def _check_room(workspace: uuid.UUID, name: str, num_bytes: int | None) -> int:
    """Hold a workspace until the transaction ends, and return how large a file may be.

    Raises:
        RefusedError: There is not as much room.
    """
    options: Options = settings.OPTIONS
    if connection.features.has_select_for_update:
        # ``no_key``: rows that refer to the workspace can be made meanwhile
        Workspace.objects.select_for_update(no_key=True).get(pk=workspace)
    limit = _room(workspace, options)
    if limit <= 0 or (num_bytes is not None and num_bytes > limit):
        raise RefusedError(too_large(name, limit, options))
    return limit


def release(upload: Upload) -> None:
    """Give the room of an upload back and remove what has arrived of it."""
    drop([upload.stored])
    Upload.objects.filter(stored=upload.stored).delete()


def release_abandoned() -> int:
    """Give back the room of uploads whose worker was killed; return how many there were."""
    abandoned = list(Upload.objects.filter(touched__lt=timezone.now() - ABANDONED_AFTER))
    for upload in abandoned:
        release(upload)
    return len(abandoned)


class KeepAlive:
    """Says now and then that an upload still arrives."""

    def __init__(self, upload: Upload | None) -> None:
        self._upload, self._next = upload, time.monotonic() + TOUCH_EVERY_S

    def touch(self) -> None:
        """Note that something arrived."""
        if self._upload is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + TOUCH_EVERY_S
            Upload.objects.filter(pk=self._upload.pk).update(touched=timezone.now())


def too_large(name: str, limit: int, options: Options) -> str:
    """Return the message for a file that has no room."""
    if limit < options.max_file_mb << 20:
        total = api.bytes_text(options.max_total_mb << 20)
        return f"{name}: only {api.bytes_text(limit)} are left of your {total}; delete nets"
    most = api.bytes_text(options.max_file_mb << 20)
    return f"{name}: is larger than {most}, the most that this workbench takes"


def taken_bytes(workspace: uuid.UUID) -> int:
    """Return what the files of a workspace and its uploads under way take."""
    key = Workspace._meta.pk.get_db_prep_value(workspace, connection)
    with connection.cursor() as cursor:
        cursor.execute(_TAKEN, [key] * 3)
        return int(cursor.fetchone()[0])


def _room(workspace: uuid.UUID, options: Options) -> int:
    return min(options.max_file_mb << 20, max(0, (options.max_total_mb << 20) - taken_bytes(workspace)))


# Every step of an upload or a job may be its process's last. What it had stored by then is named by no row
# of the database; it is found by comparing the storage with the rows, once it is too old for a step under
# way.

FOLDERS = ("nets", "inputs", "documents", "results")
"""Folders of the storage; in each, one folder for each net, workspace or comparison."""

UNNAMED_AFTER = timedelta(hours=1)
"""A file that no row names by then belongs to no step under way: a row names a large upload before its first
byte, a small one arrives within a minute (``slow_clients``), and the documents of a job within moments."""

FORGOTTEN_AFTER = timedelta(days=1)
"""Nets without files, browsers that brought nothing, and old entries of the queue are kept for so long."""


def remove_unnamed_files(age: timedelta = UNNAMED_AFTER) -> int:
    """Remove stored files that no row names, and empty folders of what was deleted; return how many files.

    Args:
        age: Younger files stay.
    """
    until, count = timezone.now() - age, 0
    for folder in FOLDERS:
        stored = list(_stored(folder))
        named, keys = _named(), _keys()  # after the listing: what was stored by then has its row
        for key, names in stored:
            unnamed = [name for name in names if name not in named and _is_older(name, until)]
            for name in unnamed:
                default_storage.delete(name)
            count += len(unnamed)
            if key not in keys and len(unnamed) == len(names):
                with suppress(OSError, NotImplementedError):  # an object storage has no folders
                    default_storage.delete(f"{folder}/{key}")
    return count


def _stored(folder: str) -> Iterator[tuple[str, list[str]]]:
    """Give the keys that have a folder, with the names of their files."""
    try:
        keys = default_storage.listdir(folder)[0]
    except FileNotFoundError:
        return
    for key in keys:
        with suppress(FileNotFoundError):  # deleted since
            yield key, [f"{folder}/{key}/{name}" for name in default_storage.listdir(f"{folder}/{key}")[1]]


def _named() -> set[str]:
    """Return the names of all stored files that rows name; uploads first, since they become files."""
    names = set(Upload.objects.values_list("stored", flat=True))
    for model in (File, OwnInput):
        names.update(model._default_manager.values_list("stored", flat=True))
    names.update(Net.objects.values_list("document", flat=True))
    for row in Comparison.objects.values_list("result", "document", "fixes"):
        names.update(row)
    return names


def _keys() -> set[str]:
    """Return the keys of all nets, workspaces and comparisons."""
    models = (Net, Workspace, Comparison)
    return {str(key) for model in models for key in model._default_manager.values_list("pk", flat=True)}


def _is_older(name: str, until: datetime) -> bool:
    try:
        return bool(default_storage.get_modified_time(name) <= until)
    except FileNotFoundError:
        return False


def forget(age: timedelta = FORGOTTEN_AFTER) -> int:
    """Delete the rows that nobody needs any more; return how many.

    Args:
        age: Younger ones stay.
    """
    until = timezone.now() - age
    entries = DBTaskResult.objects.exclude(status=TaskResultStatus.READY).filter(enqueued_at__lt=until)
    nets = Net.objects.filter(state=State.EMPTY, created__lt=until, files=None)
    browsers = Workspace.objects.filter(user=None, token_hash="", created__lt=until).exclude(pk=LOCAL)
    for model in (Net, Comparison, Upload):
        browsers = browsers.exclude(Exists(model._default_manager.filter(workspace=OuterRef("pk"))))
    sessions = Session.objects.filter(expire_date__lt=timezone.now())
    return sum(rows.delete()[0] for rows in (entries, nets, browsers, sessions)) + forget_counts()


UNUSED_INPUTS_KEPT = timedelta(days=1)
"""A file of inputs that no comparison uses was left behind by a page that did not go on."""


def delete_unused_inputs() -> int:
    """Delete the files of inputs that no comparison uses any more; return how many."""
    since = timezone.now() - UNUSED_INPUTS_KEPT
    unused = list(OwnInput.objects.filter(comparisons=None, created__lt=since))
    for own in unused:
        drop([own.stored])
        own.delete()
    return len(unused)


def delete_unused_nets() -> int:
    """Delete the nets that were neither read nor compared lately; return how many.

    What was found about them stays: a comparison outlives its nets.
    """
    if not settings.OPTIONS.keep_days:
        return 0
    since = timezone.now() - timedelta(days=settings.OPTIONS.keep_days)
    used = Comparison.objects.filter(Q(created__gte=since) | Q(state__in=UNFINISHED))
    kept = [key for pair in used.values_list("net_a", "net_b") for key in pair if key]
    unused = Net.objects.filter(touched__lt=since, created__lt=since).exclude(state__in=UNFINISHED)
    count = 0
    for net in unused.exclude(pk__in=kept):
        delete_net(net)
        count += 1
    return count
