"""Room for files: a large one takes it before its first byte, a small one when it is kept.

The quota is what the files of a workspace and its uploads under way take together. Room is taken in a
transaction that holds the workspace's row, so that uploads at the same time cannot take the same room; with
SQLite, transactions wait for one another anyway (``web.sqlite``).

A small file takes its room in the transaction that keeps it, and needs no other: fifty people who upload in
one instant wait for each other's transactions (decision 0201).
"""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from netweave import api
from netweave.web.models import File, Net, OwnInput, Upload, Workspace
from netweave.web.work import storage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from netweave.web.options import Options

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
            storage.drop([arrival.stored])
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
    storage.drop([upload.stored])
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
