"""Postgres instead of SQLite, and a storage without folders instead of the data folder."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.web.running import Workbench

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture
def postgres():
    """Start a Postgres of its own on a free port; as root, as the user that Debian made for it."""
    pytest.importorskip("psycopg")
    if not PROGRAMS:
        pytest.skip("needs Postgres")
    as_user = []
    folder = Path(tempfile.mkdtemp(prefix="netweave-postgres-"))
    if os.geteuid() == 0:
        owner = next((user for user in pwd.getpwall() if user.pw_name == "postgres"), None)
        if owner is None:
            pytest.skip("Postgres does not run as root, and the user postgres is not there")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        as_user = ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def run(program, *arguments):
        command = [*as_user, PROGRAMS[-1] / program, "-D", folder / "db", *arguments]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, cwd="/")

    run("initdb", "--auth=trust", "--username=netweave")
    run("pg_ctl", "-w", "-l", folder / "log", "-o", f"-p {port} -k {folder} -h 127.0.0.1", "start")
    yield f"postgres://netweave@127.0.0.1:{port}/postgres"
    run("pg_ctl", "-m", "immediate", "stop")
    shutil.rmtree(folder)


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
