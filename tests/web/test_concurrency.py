"""Many threads at once, each with its own connection: on SQLite, and on PostgreSQL with its many writers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from django.db import connection, connections

from netweave.web import nets
from netweave.web.models import File, Net, Workspace
from netweave.web.safety import TooManyError
from netweave.web.sqlite.base import DatabaseWrapper
from netweave.web.work import leases, shares, storage
from tests.web.begin import TEST_DATABASE

PAUSE_S = 0.02
"""Between looking and writing, so that all others look as well unless they are kept from it."""


def at_once(*calls) -> list:
    """Call functions at the same time; return what each returned or raised."""
    results: list = [None] * len(calls)
    start = threading.Barrier(len(calls))

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = calls[number]()
        except Exception as error:  # noqa: BLE001 (for the test to judge)
            results[number] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def pause_after(monkeypatch, module, name: str) -> None:
    """Have a function sleep before it returns."""
    function = getattr(module, name)

    def slowly(*arguments):
        result = function(*arguments)
        time.sleep(PAUSE_S)
        return result

    monkeypatch.setattr(module, name, slowly)


def upload(net: Net, name: str, size: int) -> None:
    """Upload a file in a request of its own."""
    nets.add_file(Net.objects.get(pk=net.pk), name, io.BytesIO(bytes(size)), num_bytes=size)


@pytest.mark.parametrize(
    "sizes", [(200_000,), (300_000,), (200_000, 300_000)], ids=["small", "large", "both"]
)
def test_uploads_at_once_fill_the_quota_and_no_more(committed, choose, monkeypatch, sizes):
    """What is refused fits no more: less is left than the smallest file takes."""
    choose(max_total_mb=1)
    pause_after(monkeypatch, storage, "taken_bytes")
    workspace = Workspace.objects.create()
    jobs = [(nets.make_net(workspace), sizes[number % len(sizes)]) for number in range(10)]
    results = at_once(*(lambda net=net, size=size: upload(net, "a.bin", size) for net, size in jobs))
    assert {type(result) for result in results} == {type(None), nets.RefusedError}, results
    kept = [size for (_, size), result in zip(jobs, results, strict=True) if result is None]
    assert sorted(File.objects.values_list("num_bytes", flat=True)) == sorted(kept)
    assert (1 << 20) - min(sizes) < sum(kept) <= 1 << 20


def test_uploads_at_once_are_no_more_than_a_minute_allows(committed, choose):
    """All of them see that the limit is not reached; each is counted where it is kept."""
    choose(uploads_per_minute=4)
    workspace = Workspace.objects.create()
    made = [nets.make_net(workspace) for _ in range(10)]
    results = at_once(*(lambda net=net: upload(net, "a.bin", 1) for net in made))
    assert Counter(type(result) for result in results) == {type(None): 4, TooManyError: 6}, results
    assert File.objects.count() == 4


def test_a_small_upload_waits_in_line_once(committed, monkeypatch):
    """Each turn is a wait for all others who write."""
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL has many writers")
    net, turns = nets.make_net(Workspace.objects.create()), []
    join = DatabaseWrapper._join
    monkeypatch.setattr(DatabaseWrapper, "_join", lambda self: (turns.append(1), join(self)))
    upload(net, "a.bin", 1)
    assert len(turns) == 1
    upload(net, "a.bin", storage.SMALL_BYTES + 1)
    assert len(turns) > 2


def test_files_replaced_removed_and_deleted_at_once_end_in_no_error(committed):
    """Each request locks the net before its files; on PostgreSQL, another order ends in deadlocks."""
    workspace, seen = Workspace.objects.create(), Counter()
    for is_deleted in (False, True) * 3:
        net = nets.make_net(workspace)
        for name in "abc":
            upload(net, name, 1)
        calls = [lambda name=name, net=net: upload(net, name, 2) for name in "aabbcc"]
        calls += [
            lambda name=name, key=net.pk: nets.remove_file(Net.objects.get(pk=key), name) for name in "abc"
        ]
        calls += [lambda key=net.pk: storage.delete_net(Net.objects.get(pk=key))] * is_deleted
        results = at_once(*calls)
        seen.update(type(result) for result in results)
        gone = (nets.RefusedError, Net.DoesNotExist)
        assert all(
            not isinstance(result, Exception) or (is_deleted and isinstance(result, gone))
            for result in results
        ), results
        assert Net.objects.filter(pk=net.pk).exists() != is_deleted
    assert seen[bool] >= 9


def test_claims_at_once_take_no_more_than_a_visitors_share(committed, choose, monkeypatch):
    choose(workers=4)
    pause_after(monkeypatch, shares, "may_run")
    workspace = Workspace.objects.create()
    waiting = [nets.make_net(workspace) for _ in range(8)]
    for net in waiting:
        upload(net, "a.bin", 1)
    results = at_once(*(lambda net=net: leases.claim(Net, str(net.pk)) for net in waiting))
    assert {type(result) for result in results} == {str, type(None)}, results
    assert sum(result is not None for result in results) == 3


@pytest.mark.multi
@pytest.mark.slow
def test_what_holds_on_sqlite_holds_on_postgres(postgres):
    """The tests of this folder that need one process, run there again."""
    import psycopg

    fast = "not slow and not multi and not browser and not corpus"
    folder = Path(__file__).parent
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", fast, str(folder)]
    done = subprocess.run(
        command,
        env={**os.environ, TEST_DATABASE: postgres},
        cwd=folder.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    with psycopg.connect(postgres) as database:
        assert database.execute("select count(*) from web_workspace").fetchone() == (
            0,
        )  # and they were there
