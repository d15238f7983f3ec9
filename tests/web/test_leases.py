"""A job is done once, whatever workers do: the steps, and a random history of them against the promise."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from netweave.web.models import Net, State, Workspace
from netweave.web.work import leases
from netweave.web.work.tasks import TASKS, read_net


@pytest.fixture
def job():
    net = Net.objects.create(workspace=Workspace.objects.create(), name="net")
    leases.queue(net, read_net)
    return net


def age(job, **passed):
    Net.objects.filter(pk=job.pk).update(touched=timezone.now() - timedelta(**passed))


def state(job):
    job.refresh_from_db()
    return job.state


def test_queueing_a_job_puts_one_entry_into_the_queue(job):
    entry = DBTaskResult.objects.get()
    assert (str(entry.id), entry.status, entry.args_kwargs["args"]) == (job.task, "READY", [str(job.pk)])


def test_one_of_two_workers_gets_a_job(job):
    assert leases.claim(Net, job.pk)
    assert leases.claim(Net, job.pk) is None


def test_a_worker_that_shows_signs_of_life_keeps_its_job(job):
    lease = leases.claim(Net, job.pk)
    age(job, seconds=9)
    assert leases.claim(Net, job.pk) is None
    assert leases.alive(job, lease, "reading")
    job.refresh_from_db()
    assert (job.stage, job.state) == ("reading", State.RUNNING)


def test_the_job_of_a_silent_worker_is_taken_over_and_only_the_new_one_may_end_it(job):
    old = leases.claim(Net, job.pk)
    age(job, seconds=11)
    new = leases.claim(Net, job.pk)
    assert new
    assert not leases.alive(job, old, "late")
    assert not leases.end(job, old, State.DONE, facts={"by": "old"})
    assert leases.end(job, new, State.DONE, facts={"by": "new"})
    assert not leases.end(job, new, State.FAILED, error="twice")
    job.refresh_from_db()
    assert (job.state, job.facts, job.error) == (State.DONE, {"by": "new"}, "")


def test_a_cancelled_job_is_lost_to_its_worker(job):
    lease = leases.claim(Net, job.pk)
    assert leases.cancel(job)
    assert not leases.alive(job, lease, "still here")
    assert not leases.end(job, lease, State.DONE)
    assert not leases.cancel(job)
    assert state(job) == State.CANCELLED


def test_a_job_that_ends_every_worker_is_given_up(job):
    for _ in range(leases.MAX_ATTEMPTS):
        assert leases.claim(Net, job.pk)
        age(job, seconds=11)
    assert leases.claim(Net, job.pk) is None
    assert state(job) == State.FAILED
    assert "3 processes that worked on it ended" in job.error


def test_what_a_dead_worker_was_at_is_queued_again_once(job):
    leases.claim(Net, job.pk)
    DBTaskResult.objects.update(status="RUNNING")
    assert leases.requeue_lost(TASKS) == 0
    age(job, seconds=11)
    assert leases.requeue_lost(TASKS) == 1
    assert leases.requeue_lost(TASKS) == 0
    assert state(job) == State.QUEUED
    assert DBTaskResult.objects.ready().count() == 1
    assert leases.claim(Net, job.pk)


def test_what_the_queue_delivered_to_a_worker_that_died_at_once_is_queued_again(job):
    DBTaskResult.objects.update(status="RUNNING")
    age(job, seconds=11)
    assert leases.requeue_lost(TASKS) == 1


def test_a_job_that_waits_long_is_left_in_the_queue(job):
    age(job, hours=5)
    assert leases.requeue_lost(TASKS) == 0
    assert DBTaskResult.objects.count() == 1


def test_a_file_that_arrives_while_a_net_is_read_takes_the_job_from_its_worker(job):
    lease = leases.claim(Net, job.pk)
    leases.queue(job, read_net)
    assert not leases.end(job, lease, State.DONE, facts={"of": "half the files"})
    assert leases.claim(Net, job.pk)
