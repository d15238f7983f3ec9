"""Room for files while they arrive: taken before the first byte, given back when the file is not kept.

The quota is what the files of a workspace and its uploads under way take together. Room is taken in a
transaction that holds the workspace's row, so that uploads at the same time cannot take the same room; with
SQLite, transactions wait for one another anyway (``web.sqlite``).
"""

from __future__ import annotations

import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from netweave.web.models import File, OwnInput, Upload, Workspace
from netweave.web.work import storage

if TYPE_CHECKING:
    from netweave.web.models import Net
    from netweave.web.options import Options

ABANDONED_AFTER = timedelta(minutes=5)
"""An upload of which nothing arrived for so long has lost its worker: the server ends connections that are
quiet for a tenth of it (``slow_clients``)."""

TOUCH_EVERY_S = 10.0


class RefusedError(Exception):
    """Something cannot be done as asked; the message is for the user."""


def reserve(owner: Net | Workspace, name: str, num_bytes: int | None) -> Upload:
    """Take room for a file that is about to arrive.

    Args:
        owner: The net that it will belong to, or the workspace.
        name: Its name, for messages.
        num_bytes: Its size as announced; None takes all the room that one file may have.

    Raises:
        RefusedError: There is not as much room.
    """
    options: Options = settings.OPTIONS
    workspace = owner.pk if isinstance(owner, Workspace) else owner.workspace_id
    folder = "inputs" if isinstance(owner, Workspace) else "nets"
    release_abandoned()
    with transaction.atomic():
        Workspace.objects.select_for_update().get(pk=workspace)
        limit = _room(workspace, options)
        if limit <= 0 or (num_bytes is not None and num_bytes > limit):
            raise RefusedError(too_large(name, limit, options))
        return Upload.objects.create(
            workspace_id=workspace,
            stored=f"{folder}/{owner.pk}/{uuid.uuid4().hex}",
            num_bytes=limit if num_bytes is None else num_bytes,
        )


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

    def __init__(self, upload: Upload) -> None:
        self._upload, self._next = upload, time.monotonic() + TOUCH_EVERY_S

    def touch(self) -> None:
        """Note that something arrived."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + TOUCH_EVERY_S
            Upload.objects.filter(pk=self._upload.pk).update(touched=timezone.now())


def too_large(name: str, limit: int, options: Options) -> str:
    """Return the message for a file that has no room."""
    if limit < options.max_file_mb << 20:
        return (
            f"{name}: only {limit / 1e6:,.0f} MB are left of your {options.max_total_mb:,} MiB; delete nets"
        )
    return f"{name}: is larger than {options.max_file_mb:,} MiB, the most that this workbench takes"


def taken_bytes(workspace: uuid.UUID) -> int:
    """Return what the files of a workspace and its uploads under way take."""
    kept = File.objects.filter(net__workspace=workspace).aggregate(sum=Sum("num_bytes"))["sum"] or 0
    inputs = OwnInput.objects.filter(workspace=workspace).aggregate(sum=Sum("num_bytes"))["sum"] or 0
    coming = Upload.objects.filter(workspace=workspace).aggregate(sum=Sum("num_bytes"))["sum"] or 0
    return int(kept + inputs + coming)


def _room(workspace: uuid.UUID, options: Options) -> int:
    return min(options.max_file_mb << 20, max(0, (options.max_total_mb << 20) - taken_bytes(workspace)))
