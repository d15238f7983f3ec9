"""Files and rows that killed processes and visitors who are gone left behind.

Every step of an upload or a job may be its process's last. What it had stored by then is named by no row of
the database; it is found by comparing the storage with the rows, once it is too old for a step under way.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from django.contrib.sessions.models import Session
from django.core.files.storage import default_storage
from django.db.models import Exists, OuterRef
from django.utils import timezone
from django_tasks.base import TaskResultStatus
from django_tasks_db.models import DBTaskResult

from netweave.web.models import Comparison, File, Net, OwnInput, State, Upload, Workspace
from netweave.web.owners import LOCAL
from netweave.web.safety.limits import forget_counts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

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
