"""A job is done once, whatever workers do: the steps, and a random history of them against the promise."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from netweave.web.models import Comparison, Net, State, Workspace
from netweave.web.work import leases, shares
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
    assert "5 processes that worked on it ended" in job.error


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


@pytest.fixture
def pair_of_owners(visitor, choose):
    """A visitor with four comparisons that wait, and one with one; two workers."""
    choose(workers=2)
    many, one = visitor("10.0.0.1"), visitor("10.0.0.2")
    return [many.make_comparison() for _ in range(4)], one.make_comparison()


def test_one_visitor_leaves_a_worker_to_others(pair_of_owners):
    of_one_owner, of_another = pair_of_owners
    held = leases.claim(Comparison, of_one_owner[0])
    assert held
    assert leases.claim(Comparison, of_one_owner[1]) is None
    assert Comparison.objects.get(pk=of_one_owner[1]).state == "queued"
    assert leases.claim(Comparison, of_another)
    job = Comparison.objects.get(pk=of_one_owner[0])
    assert leases.end(job, held, State.DONE)
    assert leases.claim(Comparison, of_one_owner[1])


def test_a_job_that_had_to_wait_for_others_of_its_owner_is_queued_when_they_end(pair_of_owners):
    of_one_owner, _ = pair_of_owners
    DBTaskResult.objects.all().delete()  # the queue has delivered all of them
    Net.objects.update(state=State.DONE)
    Comparison.objects.update(task="")
    workspace = Comparison.objects.get(pk=of_one_owner[0]).workspace_id
    assert shares.enter_next(workspace, TASKS)
    queued = {entry.args_kwargs["args"][0] for entry in DBTaskResult.objects.ready()}
    assert len(queued) == 1


def test_browsers_of_one_address_leave_a_worker_to_others(visitor, choose):
    """Whoever throws the cookie away is another browser, and not another visitor."""
    choose(workers=2)
    browsers = [visitor("10.0.0.1").make_comparison() for _ in range(3)]
    other = visitor("10.0.0.2").make_comparison()
    assert leases.claim(Comparison, browsers[0])
    assert [leases.claim(Comparison, key) for key in browsers[1:]] == [None, None]
    assert leases.claim(Comparison, other)


def test_the_queue_holds_a_few_jobs_of_a_visitor_and_all_are_done_in_their_order(visitor, choose):
    choose(workers=2)
    owner = visitor("10.0.0.1")
    Net.objects.all().delete()
    keys = [owner.make_comparison() for _ in range(9)]
    Net.objects.update(state=State.DONE)
    Comparison.objects.update(task="", touched=timezone.now())
    DBTaskResult.objects.all().delete()
    for key in keys:
        job = Comparison.objects.get(pk=key)
        job.state = State.EMPTY
        leases.queue(job, TASKS[Comparison])
    assert DBTaskResult.objects.ready().count() == shares.MAX_ENTRIES
    done = []
    while entry := DBTaskResult.objects.ready().first():  # as a worker does
        key = entry.args_kwargs["args"][0]
        DBTaskResult.objects.filter(pk=entry.pk).update(status="SUCCESSFUL")
        job = Comparison.objects.get(pk=key)
        assert leases.end(job, leases.claim(Comparison, key), State.DONE)
        shares.enter_next(job.workspace_id, TASKS)
        done.append(key)
    assert done == keys


def test_jobs_that_may_not_run_are_not_queued_again_and_again(pair_of_owners):
    """Each entry would be taken by a worker for nothing, every ten seconds."""
    of_one_owner, _ = pair_of_owners
    Net.objects.update(state=State.DONE)
    assert leases.claim(Comparison, of_one_owner[0])
    DBTaskResult.objects.all().delete()
    waiting = Comparison.objects.filter(pk__in=of_one_owner[1:])
    waiting.update(task="", touched=timezone.now() - timedelta(minutes=1))
    assert leases.requeue_lost(TASKS) == 0
    Comparison.objects.filter(pk=of_one_owner[0]).update(state=State.DONE)
    assert leases.requeue_lost(TASKS) == 1
    assert leases.requeue_lost(TASKS) <= 1


@pytest.mark.parametrize("most", [leases.MAX_CRASHES, leases.MAX_ATTEMPTS])
def test_a_job_whose_child_died_is_tried_again_for_so_often(job, most):
    for _ in range(most - 1):
        lease = leases.claim(Net, job.pk)
        assert leases.give_back(job, lease, TASKS, max_attempts=most)
        assert not leases.end(job, lease, State.DONE)
        assert state(job) == State.QUEUED
    lease = leases.claim(Net, job.pk)
    assert not leases.give_back(job, lease, TASKS, max_attempts=most)
    assert leases.end(job, lease, State.FAILED, error="died")
    assert state(job) == State.FAILED


def test_on_ones_own_machine_all_workers_are_ones_own(visitor, choose):
    choose(workers=2, hosts=())
    owner = visitor()
    keys = [owner.make_comparison() for _ in range(2)]
    assert all(leases.claim(Comparison, key) for key in keys)


def test_a_visitor_has_only_so_many_comparisons_that_wait(visitor, choose):
    choose(max_waiting=2)
    owner = visitor()
    keys = [owner.make_comparison() for _ in range(2)]
    found = Comparison.objects.get(pk=keys[0])
    body = {"a": str(found.net_a_id), "b": str(found.net_b_id)}
    refused = owner.call("POST", "/comparisons", body)
    assert refused.status_code == 422
    assert "2 of your comparisons wait or run" in refused.json()["detail"]
    assert visitor().make_comparison()
    owner.call("POST", f"/comparisons/{keys[0]}/cancel")
    assert owner.call("POST", "/comparisons", body).status_code == 202


def test_nets_are_made_only_so_often(visitor, choose):
    choose(nets_per_minute=2)
    owner = visitor()
    assert [owner.call("POST", "/nets", {}).status_code for _ in range(3)] == [201, 201, 429]
