"""Uploads are deleted when nobody has used them for as long as the operator says, and not before."""

from __future__ import annotations

import os
import time
from datetime import timedelta

import pytest
from django.core.files.storage import default_storage
from django.utils import timezone

from netweave.web.models import Comparison, File, Net, State
from netweave.web.work.expiry import delete_unused_nets


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

    monkeypatch.setattr(storage.tempfile, "gettempdir", lambda: str(tmp_path))
    for name, age in (("netweave-job-old", 2000), ("netweave-job-new", 10), ("somebody-else", 2000)):
        (tmp_path / name / "net").mkdir(parents=True)
        then = time.time() - age
        os.utime(tmp_path / name, (then, then))
    (tmp_path / "netweave-job-link").symlink_to(tmp_path / "somebody-else")
    assert storage.remove_left_scratch(600.0) == 1
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["netweave-job-link", "netweave-job-new", "somebody-else"]
