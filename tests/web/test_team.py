"""Postgres instead of SQLite, and a storage without folders instead of the data folder."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.web.running import Workbench


@pytest.mark.multi
@pytest.mark.slow
def test_with_postgres_nothing_else_changes(postgres, tmp_path):
    with Workbench(tmp_path / "data", workers=2, environment={"DATABASE_URL": postgres}) as bench:
        program = bench.program()
        pair = program.call("POST", "/samples/padding")
        keys = [program.compare(pair["a"]["id"], pair["b"]["id"]) for _ in range(6)]
        for worker in bench.processes("netweave.web.work.worker"):
            os.kill(worker, 9)
        assert {program.wait(f"/comparisons/{key}", 90)["verdict"] for key in keys} == {"different"}
        assert not (bench.data / "netweave.sqlite3").exists()
        assert len(list((bench.data / "files" / "results").rglob("*-result.json.gz"))) == len(keys)


def test_files_need_no_folder_of_this_machine(visitor, tmp_path):
    """Object storage has no paths: what is laid out for a reader is copied from the storage."""
    from django.conf import settings
    from django.core.files.storage import InMemoryStorage, storages
    from django.test import override_settings

    from netweave.web.models import Net
    from netweave.web.work import storage

    memory = {"default": {"BACKEND": "django.core.files.storage.InMemoryStorage"}}
    with override_settings(STORAGES={**settings.STORAGES, **memory}):
        assert isinstance(storages["default"], InMemoryStorage)
        key = visitor().make_net(**{"a.prototxt": b"aaa", "b.caffemodel": b"bbb"})
        paths = storage.lay_out(Net.objects.get(pk=key), tmp_path / "net")
        assert {path.name: path.read_bytes() for path in paths} == {
            "a.prototxt": b"aaa",
            "b.caffemodel": b"bbb",
        }
        name = storage.keep("results/x.json.gz", b"{}")
        assert storage.kept_json(name) == {}
        storage.drop([name, "never/there"])


def test_object_storage_is_one_setting(tmp_path):
    """In an interpreter of its own: settings are read once."""
    import sys

    pytest.importorskip("storages.backends.s3")
    (tmp_path / "settings.toml").write_text('storage = "s3://nets/team/a"\n')
    script = (
        "import django; django.setup()\n"
        "from django.core.files.storage import default_storage as s\n"
        "print(type(s._wrapped or s).__name__, s.bucket_name, s.location)"
    )
    environment = {**os.environ, "NETWEAVE_DATA": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.stdout.split()[1:] == ["nets", "team/a"], done.stderr
