"""The steps of a job: queued, claimed, alive, ended; each is one conditional update of its row.

The queue may deliver a job any number of times, and a worker may be killed at any moment; the lease makes
the outcome one. A worker that lost its lease, because the job was cancelled, deleted, or taken over after
a silence, learns it with its next sign of life and can no longer write anything.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from netweave.web.models import SILENCE, UNFINISHED, Comparison, Job, Net, State
from netweave.web.prepared_statements import update
from netweave.web.work import shares
from netweave.web.work.shares import JOBS, Tasks

if TYPE_CHECKING:
    from django_tasks.base import Task


MAX_ATTEMPTS = 5
"""A job that was begun so often is not tried again: each time its worker or its child was killed."""

MAX_CRASHES = 2
"""Nor is one whose child crashed so often: that is most likely the job's own doing."""


def queue(job: Net | Comparison, task: Task[Any, Any]) -> bool:
    """Put a job into the queue, whatever it was before; a worker that has it loses it.

    Returns:
        False if the job is not there any more; otherwise its row is held until the caller's transaction ends.
    """
    with transaction.atomic(savepoint=False):
        job.touched = timezone.now()
        # one that still waits is begun after this transaction, and so with all that is there by then
        if job.state == State.QUEUED and update(job, ("touched", "name"), state=State.QUEUED):
            return True
        job.state, job.task = State.QUEUED, ""
        if shares.may_enter(job):
            job.task = str(task.enqueue(str(job.pk)).id)
        job.stage = job.error = job.lease = ""
        job.attempts = 0
        return update(job, ("name", "state", "task", "stage", "error", "lease", "touched", "attempts"))


def hold(job: Net | Comparison) -> None:
    """Keep others from changing a job, and the files of a net, until the transaction ends.

    ``queue`` does it too. Whoever changes a net and its files holds the net first: on PostgreSQL, two
    transactions that lock them in different orders deadlock. SQLite has one writer at a time.
    """
    type(job)._default_manager.select_for_update().filter(pk=job.pk).first()


@transaction.atomic
def claim(model: type[Net | Comparison], pk: str) -> str | None:
    """Take a job that is queued, or whose worker is silent; return the lease, None if it is not to be had."""
    lease = uuid.uuid4().hex
    silent = Q(state=State.RUNNING, touched__lt=timezone.now() - SILENCE)
    free = model.objects.filter(pk=pk).filter(Q(state=State.QUEUED) | silent)
    exhausted = free.filter(attempts__gte=MAX_ATTEMPTS)
    if exhausted.update(state=State.FAILED, lease="", error=_exhausted()):
        return None
    job = free.select_related("workspace").first()
    if job is None:
        return None
    shares.hold(job.workspace)
    if not shares.may_run(job):
        free.update(task="")  # ``shares.enter_next`` puts it into the queue again
        return None
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
def give_back(job: Net | Comparison, lease: str, tasks: Tasks, *, max_attempts: int) -> bool:
    """Queue a job again whose child died; False if it has died often, or is not the caller's any more.

    Args:
        job: The job.
        lease: The caller's.
        tasks: What is put into the queue.
        max_attempts: A job that was begun so often is not tried again.
    """
    held = type(job)._default_manager.filter(pk=job.pk, state=State.RUNNING, lease=lease)
    again = held.filter(attempts__lt=max_attempts)
    if not again.update(state=State.QUEUED, lease="", stage="", touched=timezone.now()):
        return False
    shares.enter(job, tasks)
    return True


@transaction.atomic
def cancel(job: Job) -> bool:
    """End a job that is not done, on its owner's wish; False if it is done already."""
    unfinished = type(job)._default_manager.filter(pk=job.pk, state__in=UNFINISHED)
    return bool(unfinished.update(state=State.CANCELLED, lease="", stage=""))


def requeue_lost(tasks: Tasks) -> int:
    """Queue again what a worker left behind that is gone; return how many jobs.

    That is a job that runs without a sign of life, and a job that waits while the queue has delivered it: one
    of each visitor at a time, and only if it may run.
    """
    count, seen = 0, set()
    ready = {str(key) for key in DBTaskResult.objects.ready().values_list("pk", flat=True)}
    silent = Q(state__in=UNFINISHED, touched__lt=timezone.now() - SILENCE)
    for model in JOBS:
        for job in model.objects.filter(silent).select_related("workspace").order_by("created"):
            if job.state == State.QUEUED:
                visitor = shares.visitor_key(job.workspace)
                if job.task in ready or visitor in seen:
                    continue
                seen.add(visitor)
                if not shares.may_run(job):
                    continue
            count += _requeue(job, tasks)
    return count


@transaction.atomic
def _requeue(job: Net | Comparison, tasks: Tasks) -> bool:
    """Queue a job again unless something has happened to it since it was looked at."""
    same = type(job)._default_manager.filter(pk=job.pk, state=job.state, touched=job.touched)
    if not same.update(state=State.QUEUED, lease="", touched=timezone.now()):
        return False
    shares.enter(job, tasks)
    return True


def _exhausted() -> str:
    return (
        f"{MAX_ATTEMPTS} processes that worked on it ended without a word, most likely for want of memory; "
        "a smaller net, or more memory for the workbench, may help"
    )
