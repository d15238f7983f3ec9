"""The quota counts uploads while they arrive, and nothing of one that is not kept stays on the disk."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from netweave.web import nets
from netweave.web.models import File, Net, Upload, Workspace
from netweave.web.safety import TooManyError
from netweave.web.work import storage


class Interrupted(io.RawIOBase):
    """A stream that does something between its first piece and the rest."""

    def __init__(self, content: bytes, between) -> None:
        super().__init__()
        self._pieces, self._between = [content[: len(content) // 2], content[len(content) // 2 :]], between

    def read(self, num_bytes=-1):
        if len(self._pieces) == 1:
            self._between()
        return self._pieces.pop(0) if self._pieces else b""


@pytest.fixture
def net():
    return nets.make_net(Workspace.objects.create())


def stored_bytes() -> int:
    """Return the bytes of all files of nets that lie in the storage."""
    if not default_storage.exists("nets"):
        return 0
    folders = default_storage.listdir("nets")[0]
    names = [
        f"nets/{folder}/{name}" for folder in folders for name in default_storage.listdir(f"nets/{folder}")[1]
    ]
    return sum(default_storage.size(name) for name in names)


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_under_way_takes_its_room(net, choose, announced):
    choose(max_total_mb=1)
    content = b"x" * 700_000
    before = stored_bytes()

    def second():
        with pytest.raises(nets.RefusedError, match=r"only [0-9.]+ k?B are left"):
            nets.add_file(net, "b.onnx", io.BytesIO(content), num_bytes=len(content) if announced else None)

    size = len(content) if announced else None
    nets.add_file(net, "a.onnx", Interrupted(content, second), num_bytes=size)
    assert [file.name for file in File.objects.all()] == ["a.onnx"]
    assert stored_bytes() - before == len(content)
    assert not Upload.objects.exists()


def test_uploads_that_fit_together_are_both_kept(net, choose):
    choose(max_total_mb=1)
    content = b"x" * 400_000
    second = lambda: nets.add_file(net, "b.onnx", io.BytesIO(content), num_bytes=len(content))  # noqa: E731
    nets.add_file(net, "a.onnx", Interrupted(content, second), num_bytes=len(content))
    assert File.objects.count() == 2


@pytest.mark.parametrize("error", [ConnectionResetError, OSError, KeyboardInterrupt])
def test_a_reset_upload_leaves_nothing(net, choose, error):
    choose(max_total_mb=1)
    before = stored_bytes()

    def reset():
        assert Upload.objects.count() == 1
        raise error

    for _ in range(3):
        with pytest.raises(error):
            nets.add_file(net, "a.onnx", Interrupted(b"x" * 700_000, reset), num_bytes=700_000)
    assert not Upload.objects.exists()
    assert stored_bytes() == before
    nets.add_file(net, "a.onnx", io.BytesIO(b"x" * 700_000), num_bytes=700_000)


def test_an_upload_that_ends_early_leaves_nothing(net):
    before = stored_bytes()
    with pytest.raises(nets.RefusedError, match="was uploaded incompletely"):
        nets.add_file(net, "a.onnx", io.BytesIO(b"x" * 10), num_bytes=11)
    assert (stored_bytes(), Upload.objects.count()) == (before, 0)


@pytest.mark.parametrize(("minutes", "kept"), [(4, True), (6, False)])
def test_the_room_of_a_killed_worker_comes_back(net, minutes, kept):
    upload = storage.reserve(net, "a.onnx", 100)
    default_storage.save(upload.stored, ContentFile(b"x" * 50))
    Upload.objects.update(touched=timezone.now() - timedelta(minutes=minutes))
    assert storage.release_abandoned() == (not kept)
    assert default_storage.exists(upload.stored) == kept
    assert Upload.objects.exists() == kept


def test_small_uploads_at_once_take_no_more_than_is_left(net, choose):
    """A small file has no room while it arrives; of two that do not fit together the first to end is kept."""
    choose(max_total_mb=1)
    left = 150_000
    nets.add_file(net, "a.onnx", io.BytesIO(b"x" * ((1 << 20) - left)), num_bytes=(1 << 20) - left)
    small = b"x" * 100_000
    before = stored_bytes()
    second = lambda: nets.add_file(net, "b.onnx", io.BytesIO(small), num_bytes=len(small))  # noqa: E731
    with pytest.raises(nets.RefusedError, match=r"c\.onnx: only [0-9.]+ k?B are left"):
        nets.add_file(net, "c.onnx", Interrupted(small, second), num_bytes=len(small))
    assert [file.name for file in net.files.all()] == ["a.onnx", "b.onnx"]
    assert stored_bytes() - before == len(small)


@pytest.mark.parametrize("size", [storage.SMALL_BYTES, storage.SMALL_BYTES + 1])
def test_the_quota_holds_to_the_byte(net, choose, size):
    choose(max_total_mb=1)
    full = (1 << 20) - size
    nets.add_file(net, "a.onnx", io.BytesIO(b"x" * (full + 1)), num_bytes=full + 1)
    with pytest.raises(nets.RefusedError, match="are left of your"):
        nets.add_file(net, "b.onnx", io.BytesIO(b"x" * size), num_bytes=size)
    nets.remove_file(net, "a.onnx")
    nets.add_file(net, "a.onnx", io.BytesIO(b"x" * full), num_bytes=full)
    nets.add_file(net, "b.onnx", io.BytesIO(b"x" * size), num_bytes=size)
    assert storage.taken_bytes(net.workspace_id) == 1 << 20
    with pytest.raises(nets.RefusedError, match="are left of your"):
        nets.add_file(net, "c.onnx", io.BytesIO(b"x"), num_bytes=1)


def test_a_small_upload_that_is_reset_leaves_nothing(net):
    before = stored_bytes()

    def reset():
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        nets.add_file(net, "a.onnx", Interrupted(b"x" * 70_000, reset), num_bytes=70_000)
    assert stored_bytes() == before
    assert not net.files.exists()


def test_a_file_that_takes_the_place_of_another_is_the_only_one_of_its_name(net):
    before = stored_bytes()
    for content in (b"one", b"three"):
        nets.add_file(net, "a.onnx", io.BytesIO(content), num_bytes=len(content))
    assert [(file.name, file.num_bytes) for file in net.files.all()] == [("a.onnx", 5)]
    assert [file.num_bytes for file in net.listed_files] == [5]
    assert stored_bytes() - before == 5


def test_an_upload_asks_the_database_few_times(visitor):
    """All who upload in one instant wait for each other's statements (decision 0201)."""
    owner = visitor()
    net = owner.make_net(**{"a.onnx": b"x"})
    with CaptureQueriesContext(connection) as asked:
        assert owner.upload(net, "b.onnx", b"x").status_code == 201
    questions = [query["sql"] for query in asked if "SAVEPOINT" not in query["sql"]]
    assert len(questions) <= 8 + connection.features.has_select_for_update, questions


def test_whoever_uploads_too_often_is_refused_before_anything_is_stored(net, choose, monkeypatch):
    choose(uploads_per_minute=2)
    for content in (b"x", b"y"):
        nets.add_file(net, "a.onnx", io.BytesIO(content), num_bytes=1)
    monkeypatch.setattr(default_storage, "save", None)
    for num_bytes in (1, storage.SMALL_BYTES + 1, None):
        with pytest.raises(TooManyError, match="more than 2 uploads in a minute"):
            nets.add_file(net, "a.onnx", io.BytesIO(b"z"), num_bytes=num_bytes)


def refused_by_the_quota(net, choose):
    choose(max_total_mb=0)
    nets.add_file(net, "a.onnx", io.BytesIO(b"x"), num_bytes=1)


def sent_too_short(net, choose):
    nets.add_file(net, "a.onnx", io.BytesIO(b"x"), num_bytes=2)


def reset_while_it_arrives(net, choose):
    def reset():
        raise ConnectionResetError

    nets.add_file(net, "a.onnx", Interrupted(b"xy", reset), num_bytes=2)


@pytest.mark.parametrize("fail", [refused_by_the_quota, sent_too_short, reset_while_it_arrives])
def test_uploads_that_fail_count_as_well(net, choose, fail):
    """Else whoever sends what is refused, or breaks off, could go on without end."""
    choose(uploads_per_minute=3)
    for _ in range(3):
        with pytest.raises((nets.RefusedError, ConnectionResetError)):
            fail(net, choose)
    with pytest.raises(TooManyError):
        fail(net, choose)


def test_samples_take_room_too(visitor, choose):
    choose(max_total_mb=1)
    owner, taken = visitor(), 0
    while owner.call("POST", "/samples/padding").status_code == 201:
        taken = sum(File.objects.values_list("num_bytes", flat=True))
        assert taken <= 1 << 20
    assert taken > 500_000
    assert not Upload.objects.exists()


def test_a_net_that_is_deleted_meanwhile_leaves_nothing(net):
    before = stored_bytes()

    def delete():
        Net.objects.all().delete()

    with pytest.raises(nets.RefusedError, match=r"deleted while 'a\.onnx' was uploaded"):
        nets.add_file(net, "a.onnx", Interrupted(b"xy", delete), num_bytes=2)
    assert (stored_bytes(), Upload.objects.count()) == (before, 0)
