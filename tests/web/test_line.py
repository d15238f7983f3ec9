"""Writers on SQLite stand in line: one at a time, also over processes, and whoever fails leaves."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import closing

import pytest

from netweave.web.sqlite.base import DatabaseWrapper


def connect(folder) -> DatabaseWrapper:
    """Return a connection of this thread to a database of its own."""
    from django.conf import settings

    return DatabaseWrapper({**settings.DATABASES["default"], "NAME": folder / "db"}, "line")


def run(connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def write(connection, statement: str, *, holds_s: float = 0.0) -> None:
    """Carry out one statement in a transaction."""
    connection.ensure_connection()
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    try:
        run(connection, statement)
        time.sleep(holds_s)
        connection.commit()
    except Exception:
        connection.rollback()
        raise
    finally:
        connection.set_autocommit(True)


@pytest.fixture
def table(tmp_path):
    with closing(connect(tmp_path)) as connection:
        run(connection, "create table counts (n integer)")
        run(connection, "insert into counts values (0)")
    return tmp_path


def is_free(folder) -> bool:
    """Whether nobody holds the lock, as another process sees it."""
    with open(f"{folder / 'db'}-line") as line:  # noqa: PTH123
        try:
            fcntl.flock(line, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_what_many_write_at_once_is_all_there(table):
    def add_ten() -> None:
        with closing(connect(table)) as connection:
            for _ in range(10):
                write(connection, "update counts set n = n + 1")

    threads = [threading.Thread(target=add_ten) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(connect(table)) as connection, connection.cursor() as cursor:
        assert cursor.execute("select n from counts").fetchone() == (80,)
    assert is_free(table)


def test_a_transaction_waits_for_whoever_holds_the_line(table):
    line = os.open(f"{table / 'db'}-line", os.O_RDWR | os.O_CREAT)
    fcntl.flock(line, fcntl.LOCK_EX)
    done = threading.Event()

    def add() -> None:
        with closing(connect(table)) as connection:
            write(connection, "update counts set n = n + 1")
        done.set()

    thread = threading.Thread(target=add)
    thread.start()
    assert not done.wait(0.2)
    os.close(line)
    assert done.wait(5)
    thread.join()


def test_a_statement_that_fails_and_a_connection_that_ends_leave_the_line(table):
    with closing(connect(table)) as connection:
        with pytest.raises(Exception, match="no such table"):
            write(connection, "update nowhere set n = 1")
        assert is_free(table)
        connection.ensure_connection()
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        assert not is_free(table)
    assert is_free(table)
