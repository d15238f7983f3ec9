"""Uploads are deleted when nobody has used them for as long as the operator says, and not before."""

from __future__ import annotations

import time
import uuid
from datetime import timedelta

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone
from django_tasks_db.models import DBTaskResult

from netweave.web import safety
from netweave.web.models import Comparison, Count, File, Net, OwnInput, State, Upload, Workspace
from netweave.web.work import storage
from netweave.web.work.storage import delete_unused_nets


@pytest.fixture
def pair(visitor):
    """A comparison whose nets were read and compared a month ago."""
    key = visitor().make_comparison()
    age(days=30)
    Comparison.objects.update(state=State.DONE)
    return Comparison.objects.get(pk=key)


def age(*, days: float) -> None:
    then = timezone.now() - timedelta(days=days)
    Net.objects.update(created=then, touched=then, state=State.DONE)
    Comparison.objects.update(created=then)


def test_uploads_are_kept_unless_the_operator_says_how_long(pair):
    assert delete_unused_nets() == 0
    assert Net.objects.count() == 2


def test_what_nobody_used_for_so_long_is_deleted_with_its_files(pair, choose):
    stored = [file.stored for file in File.objects.all()]
    choose(keep_days=29.0)
    assert delete_unused_nets() == 2
    assert stored
    assert not any(map(default_storage.exists, stored))
    pair.refresh_from_db()
    assert (pair.net_a, pair.name_a, pair.state) == (None, "leaves.prototxt", State.DONE)


@pytest.mark.parametrize(
    "use",
    [
        {"created": timezone.now()},
        {"state": State.QUEUED},
        {"state": State.RUNNING},
    ],
    ids=["compared lately", "is to be compared", "is being compared"],
)
def test_what_is_in_use_stays(pair, choose, use):
    Comparison.objects.update(**use)
    choose(keep_days=29.0)
    assert delete_unused_nets() == 0


def test_a_net_that_was_read_lately_or_is_being_read_stays(pair, choose):
    choose(keep_days=29.0)
    Net.objects.filter(pk=pair.net_a_id).update(touched=timezone.now())
    Net.objects.filter(pk=pair.net_b_id).update(state=State.RUNNING)
    assert delete_unused_nets() == 0


def test_what_is_younger_stays(pair, choose):
    choose(keep_days=31.0)
    assert delete_unused_nets() == 0


def test_folders_of_killed_workers_go_and_those_of_others_stay(tmp_path, monkeypatch):
    from netweave.web.work import storage

    monkeypatch.setattr(storage.tempfile, "tempdir", str(tmp_path))
    now = time.time()
    for name in ("netweave-job-left", "somebody-else"):
        (tmp_path / name / "net").mkdir(parents=True)
    (tmp_path / "netweave-job-link").symlink_to(tmp_path / "somebody-else")
    with storage.scratch() as held:
        monkeypatch.setattr(storage.time, "time", lambda: now + storage.SCRATCH_GRACE_S - 1)
        assert storage.remove_left_scratch() == 0  # it may only just have been made
        monkeypatch.setattr(storage.time, "time", lambda: now + storage.SCRATCH_GRACE_S + 100)
        assert storage.remove_left_scratch() == 1
        left = sorted(path.name for path in tmp_path.iterdir())
        assert left == sorted([held.name, "netweave-job-link", "somebody-else"])
    assert not held.exists()


def test_what_killed_processes_stored_goes_and_what_rows_name_stays(pair):
    """An upload, a document and results, each of a process that was killed before the row that names them."""
    storage.remove_unnamed_files(timedelta(0))  # of other tests, whose rows were taken back
    before = {file.stored for file in File.objects.all()}
    net, gone = pair.net_a_id, uuid.uuid4()
    upload = Upload.objects.create(workspace=pair.workspace, stored=f"nets/{net}/coming", num_bytes=1)
    own = OwnInput.objects.create(
        workspace=pair.workspace, name="a.npz", stored=f"inputs/{pair.workspace.pk}/a", num_bytes=1
    )
    lost = [f"nets/{net}/lost", f"nets/{gone}/lost", f"documents/{net}/a.gz", f"results/{pair.pk}/a.gz"]
    lost += [f"inputs/{pair.workspace.pk}/lost", f"inputs/{gone}/lost"]
    for name in (*lost, upload.stored, own.stored, f"documents/{net}/kept.gz"):
        default_storage.save(name, ContentFile(b"x"))
    Net.objects.filter(pk=net).update(document=f"documents/{net}/kept.gz")
    assert storage.remove_unnamed_files() == 0  # they may belong to a step under way
    assert storage.remove_unnamed_files(timedelta(0)) == len(lost)
    assert not any(map(default_storage.exists, [*lost, f"nets/{gone}", f"inputs/{gone}"]))
    assert all(map(default_storage.exists, [*before, upload.stored, own.stored, f"documents/{net}/kept.gz"]))


def test_a_year_of_visitors_leaves_no_rows(visitor):
    """Browsers that brought nothing, nets without files, entries of the queue."""
    kept = visitor()
    kept.make_comparison()
    kept_browser = Workspace.objects.get()
    for _ in range(5):
        visitor().make_net()
    DBTaskResult.objects.update(status="SUCCESSFUL")
    assert storage.forget() == 0
    then = timezone.now() - timedelta(days=2)
    for model, field in ((Net, "created"), (Workspace, "created"), (DBTaskResult, "enqueued_at")):
        model.objects.update(**{field: then})
    assert storage.forget() > 10
    assert storage.forget() == 0  # also the browsers whose nets have gone
    assert [Workspace.objects.get(), Net.objects.count()] == [kept_browser, 2]
    assert not DBTaskResult.objects.exists()


def test_counts_of_minutes_long_past_go(visitor, monkeypatch):
    visitor().make_net()
    assert Count.objects.count() == 2  # of browsers from its address, and of its nets
    assert safety.forget_counts() == 0
    monkeypatch.setattr(safety, "now", lambda: 1e9 + 3600)
    assert storage.forget() == 2
    assert not Count.objects.exists()
