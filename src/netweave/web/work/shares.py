"""Fair shares of the workers: nobody's jobs take all of them, or fill the queue before others'.

A visitor is a workspace, or, where anybody may make one, an address with all its workspaces. Of a visitor's
jobs only so many run, and only so many more are in the queue; the others wait outside of it, until one of
theirs ends.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from netweave.web.models import SILENCE, Comparison, Net, State, Workspace

if TYPE_CHECKING:
    from django.db.models import Model
    from django_tasks.base import Task

JOBS: tuple[type[Net | Comparison], ...] = (Net, Comparison)

Tasks = dict[type[Net | Comparison], "Task[Any, Any]"]
"""What a worker does with each kind of job."""

MAX_ENTRIES = 4
"""Jobs of one visitor in the queue, beyond those that run: so that a worker that is free has one at once."""


def may_run(job: Net | Comparison) -> bool:
    """Return whether a job may run beside those of its visitor that do, those of silent workers apart.

    Other processes may change that at once, unless the caller holds the visitor (``hold``).
    """
    since = connection.ops.adapt_datetimefield_value(timezone.now() - SILENCE)
    return _num_others(job, State.RUNNING, "touched >= %s", since) < settings.OPTIONS.running_limit


def may_enter(job: Net | Comparison) -> bool:
    """Return whether a job may enter the queue beside those of its visitor that are in it."""
    return _num_others(job, State.QUEUED, "task <> %s", "") < MAX_ENTRIES


def hold(workspace: Workspace) -> None:
    """Keep other processes from counting or entering the jobs of a visitor until the transaction ends.

    PostgreSQL lets two transactions count at once, and neither sees what the other is about to change. With
    SQLite a transaction has the database to itself.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [visitor_key(workspace)])


@transaction.atomic
def enter_next(workspace: uuid.UUID, tasks: Tasks) -> bool:
    """Put the oldest job of a visitor into the queue that waits outside; False if there is none.

    Args:
        workspace: Of the visitor.
        tasks: What is put into the queue.
    """
    owner = Workspace.objects.filter(pk=workspace).first()
    if owner is None:
        return False
    hold(owner)
    outside = Q(state=State.QUEUED, task="") & _visitor(owner)
    firsts = [model.objects.filter(outside).order_by("created").first() for model in JOBS]
    waiting = [job for job in firsts if job is not None]
    if not waiting:
        return False
    enter(min(waiting, key=lambda job: job.created), tasks)
    return True


def enter(job: Net | Comparison, tasks: Tasks) -> None:
    """Put a job into the queue."""
    entry = tasks[type(job)].enqueue(str(job.pk))
    type(job)._default_manager.filter(pk=job.pk).update(task=str(entry.id), touched=timezone.now())


def visitor_key(workspace: Workspace) -> str:
    """Return what tells a workspace's visitor from others."""
    return workspace.origin or str(workspace.pk)


def _visitor(workspace: Workspace) -> Q:
    """Return the condition on jobs that they are a visitor's."""
    return Q(workspace__origin=workspace.origin) if workspace.origin else Q(workspace=workspace)


def _num_others(job: Net | Comparison, state: State, condition: str, value: Any) -> int:
    """Return how many other jobs of a visitor are in a state and meet a condition on a value.

    It is one question for all kinds of jobs: it is asked with every upload, while all others wait.
    """
    workspace = job.workspace
    by_origin = bool(workspace.origin)
    visitor = "visitor.origin = %s" if by_origin else "visitor.id = %s"
    count = f"""(SELECT count(*) FROM {{table}} job
        JOIN {Workspace._meta.db_table} visitor ON visitor.id = job.workspace_id
        WHERE {visitor} AND job.state = %s AND job.id <> %s AND job.{condition})"""
    counts = " + ".join(count.format(table=model._meta.db_table) for model in JOBS)
    key = workspace.origin if by_origin else _stored_key(workspace)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {counts}", [key, state.value, _stored_key(job), value] * len(JOBS))
        return int(cursor.fetchone()[0])


def _stored_key(row: Model) -> Any:
    """Return a row's key as the database has it."""
    return row._meta.pk.get_db_prep_value(row.pk, connection)
