"""A workbench in this process, on a folder of its own; what a test changes in its database is taken back."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


@pytest.fixture(scope="session")
def _tables():
    from django.core.management import call_command
    from django.test.utils import setup_test_environment

    setup_test_environment()
    call_command("migrate", verbosity=0, interactive=False)


@pytest.fixture(autouse=True)
def _as_before(request):
    from django.db import transaction

    if request.node.get_closest_marker("multi") or "committed" in request.fixturenames:
        yield  # the workbench is another process, or other threads are to see what is written
        return
    request.getfixturevalue("_tables")
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def committed(_tables):
    """Let a test commit, so that other connections see its rows; all tables are emptied after it."""
    from django.core.management import call_command

    yield
    call_command("flush", verbosity=0, interactive=False)


@pytest.fixture(autouse=True)
def _one_minute(monkeypatch):
    """Keep the clock of the limits in one minute."""
    monkeypatch.setattr("netweave.web.safety.now", lambda: 1e9)


@pytest.fixture
def choose():
    """Set some of the operator's choices for a test."""
    import contextlib
    import dataclasses

    from django.conf import settings
    from django.test import override_settings

    with contextlib.ExitStack() as stack:

        def choose(**chosen):
            stack.enter_context(override_settings(OPTIONS=dataclasses.replace(settings.OPTIONS, **chosen)))

        yield choose


@pytest.fixture
def visitor():
    """Make browsers, each a visitor of its own, that the server takes for human: with CSRF checked."""
    from tests.web.visitor import Visitor

    return Visitor


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
