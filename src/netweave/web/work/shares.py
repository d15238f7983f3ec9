"""How the workers are shared out: nobody's jobs take all of them, and nobody's fill the queue before others'.

A visitor is a workspace, or, where anybody may make one, an address with all its workspaces. Of a visitor's
jobs only so many run, and only so many more are in the queue; the others wait outside of it, until one of
theirs ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from netweave.web.models import SILENCE, Comparison, Net, State, Workspace

if TYPE_CHECKING:
    import uuid

    from django_tasks.base import Task

JOBS: tuple[type[Net | Comparison], ...] = (Net, Comparison)

Tasks = dict[type[Net | Comparison], "Task[Any, Any]"]
"""What a worker does with each kind of job."""

MAX_ENTRIES = 4
"""Jobs of one visitor in the queue, beyond those that run: so that a worker that is free has one at once."""


def may_run(job: Net | Comparison) -> bool:
    """Whether a job may run beside those of its visitor that do, those of silent workers apart."""
    since = timezone.now() - SILENCE
    running = Q(state=State.RUNNING, touched__gte=since) & ~Q(pk=job.pk)
    return _count(_visitor(job.workspace), running) < settings.OPTIONS.running_limit


def may_enter(job: Net | Comparison) -> bool:
    """Whether a job may enter the queue beside those of its visitor that are in it."""
    entered = Q(state=State.QUEUED) & ~Q(task="") & ~Q(pk=job.pk)
    return _count(_visitor(job.workspace), entered) < MAX_ENTRIES


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


def _count(*conditions: Q) -> int:
    return sum(model.objects.filter(*conditions).count() for model in JOBS)
