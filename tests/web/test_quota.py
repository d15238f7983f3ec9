"""The quota counts uploads while they arrive, and nothing of one that is not kept stays on the disk."""

from __future__ import annotations

import io
from datetime import timedelta

import pytest
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from netweave.web import nets
from netweave.web.models import File, Net, Upload, Workspace
from netweave.web.work import upload_quota


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
        with pytest.raises(nets.RefusedError, match="only 0 MB are left"):
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
    upload = upload_quota.reserve(net, "a.onnx", 100)
    default_storage.save(upload.stored, ContentFile(b"x" * 50))
    Upload.objects.update(touched=timezone.now() - timedelta(minutes=minutes))
    assert upload_quota.release_abandoned() == (not kept)
    assert default_storage.exists(upload.stored) == kept
    assert Upload.objects.exists() == kept


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
