"""The steps of a job: queued, claimed, alive, ended; each is one conditional update of its row.

The queue may deliver a job any number of times, and a worker may be killed at any moment; the lease makes
the outcome one. A worker that lost its lease, because the job was cancelled, deleted, or taken over after
a silence, learns it with its next sign of life and can no longer write anything.
"""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from netweave.web.models import UNFINISHED, Comparison, Net, State

if TYPE_CHECKING:
    from django_tasks.base import Task

    from netweave.web.models import Job

SILENCE = timedelta(seconds=10)
"""A worker that gave no sign of life for this long is taken for dead."""

MAX_ATTEMPTS = 3
"""A job that ended this many workers is not tried again."""

JOBS: tuple[type[Net | Comparison], ...] = (Net, Comparison)


def queue(job: Net | Comparison, task: Task[Any, Any]) -> None:
    """Put a job into the queue, whatever it was before; a worker that has it loses it."""
    same = type(job)._default_manager.filter(pk=job.pk, state=State.QUEUED)
    with transaction.atomic():
        # one that still waits is begun after this transaction, and so with all that is there by then
        if job.state == State.QUEUED and same.update(touched=timezone.now(), name=job.name):
            return
        entry = task.enqueue(str(job.pk))
        job.state, job.task = State.QUEUED, str(entry.id)
        job.stage = job.error = job.lease = ""
        job.touched, job.attempts = timezone.now(), 0
        job.save(update_fields=["name", "state", "task", "stage", "error", "lease", "touched", "attempts"])


@transaction.atomic
def claim(model: type[Net | Comparison], pk: str) -> str | None:
    """Take a job that is queued, or whose worker is silent; return the lease, None if it is not to be had."""
    lease = uuid.uuid4().hex
    silent = Q(state=State.RUNNING, touched__lt=timezone.now() - SILENCE)
    free = model.objects.filter(pk=pk).filter(Q(state=State.QUEUED) | silent)
    exhausted = free.filter(attempts__gte=MAX_ATTEMPTS)
    if exhausted.update(state=State.FAILED, lease="", error=_exhausted()):
        return None
    job = free.first()
    if job is not None and _num_running(job) >= settings.OPTIONS.running_limit:
        return None  # ``next_of`` puts it into the queue again when one of its owner's jobs ends
    taken = free.update(
        state=State.RUNNING, lease=lease, touched=timezone.now(), attempts=F("attempts") + 1, stage="starting"
    )
    return lease if taken else None


@transaction.atomic
def alive(job: Job, lease: str, stage: str, **known: str) -> bool:
    """Give a sign of life with what is done and known so far; False if the job is no longer the caller's."""
    held = type(job)._default_manager.filter(pk=job.pk, state=State.RUNNING, lease=lease)
    return bool(held.update(touched=timezone.now(), stage=stage[:200], **known))


@transaction.atomic
def end(job: Job, lease: str, state: State, **found: Any) -> bool:
    """End a job with what was found; False, and nothing written, if it is not the caller's any more."""
    held = type(job)._default_manager.filter(pk=job.pk, state=State.RUNNING, lease=lease)
    return bool(held.update(state=state, lease="", stage="", **found))


@transaction.atomic
def next_of(workspace: uuid.UUID, tasks: dict[type[Net | Comparison], Task[Any, Any]]) -> bool:
    """Put the oldest job of an owner into the queue again that had to wait for others of theirs."""
    waiting = [
        (job.created, model, job)
        for model in tasks
        for job in model.objects.filter(workspace=workspace, state=State.QUEUED).order_by("created")[:20]
        if not _is_waiting(job.task)
    ]
    if not waiting:
        return False
    _, model, job = min(waiting, key=lambda row: row[0])
    entry = tasks[model].enqueue(str(job.pk))
    model.objects.filter(pk=job.pk).update(task=str(entry.id), touched=timezone.now())
    return True


def _num_running(job: Job) -> int:
    """Return how many jobs of a job's owner run, those of silent workers apart."""
    since = timezone.now() - SILENCE
    return sum(
        model.objects.filter(workspace=job.workspace_id, state=State.RUNNING, touched__gte=since)
        .exclude(pk=job.pk)
        .count()
        for model in JOBS
    )


@transaction.atomic
def cancel(job: Job) -> bool:
    """End a job that is not done, on its owner's wish; False if it is done already."""
    unfinished = type(job)._default_manager.filter(pk=job.pk, state__in=UNFINISHED)
    return bool(unfinished.update(state=State.CANCELLED, lease="", stage=""))


def requeue_lost(tasks: dict[type[Net | Comparison], Task[Any, Any]]) -> int:
    """Queue again what a worker left behind that is gone; return how many jobs.

    That is a job that runs without a sign of life, and a job that waits while the queue has delivered it.
    """
    count = 0
    for model, task in tasks.items():
        for job in model.objects.filter(state__in=UNFINISHED, touched__lt=timezone.now() - SILENCE):
            if job.state == State.QUEUED and _is_waiting(job.task):
                continue
            with transaction.atomic():
                same = model.objects.filter(pk=job.pk, state=job.state, touched=job.touched)
                if same.update(state=State.QUEUED, lease="", touched=timezone.now()):
                    entry = task.enqueue(str(job.pk))
                    model.objects.filter(pk=job.pk).update(task=str(entry.id))
                    count += 1
    return count


def _is_waiting(task: str) -> bool:
    return bool(task) and DBTaskResult.objects.ready().filter(pk=task).exists()


def _exhausted() -> str:
    return (
        f"{MAX_ATTEMPTS} processes that worked on it ended without a word, most likely for want of memory; "
        "a smaller net, or more memory for the workbench, may help"
    )
