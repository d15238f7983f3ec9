"""Writers on SQLite stand in line: one at a time, also over processes, and whoever fails leaves."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from contextlib import closing

import pytest

from netweave.web.sqlite.base import DatabaseWrapper, Line


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


@pytest.mark.parametrize("alone", [False, True])
def test_who_writes_waits_for_whoever_holds_the_line(table, alone):
    line = os.open(f"{table / 'db'}-line", os.O_RDWR | os.O_CREAT)
    fcntl.flock(line, fcntl.LOCK_EX)
    done = threading.Event()

    def add() -> None:
        with closing(connect(table)) as connection:
            (run if alone else write)(connection, "update counts set n = n + 1")
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
        with pytest.raises(Exception, match="no such table"):
            run(connection, "update nowhere set n = 1")
        assert is_free(table)
        connection.ensure_connection()
        connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
        assert not is_free(table)
    assert is_free(table)


def test_who_reads_does_not_wait(table):
    line = os.open(f"{table / 'db'}-line", os.O_RDWR | os.O_CREAT)
    fcntl.flock(line, fcntl.LOCK_EX)
    with closing(connect(table)) as connection:
        run(connection, "select n from counts")
    os.close(line)


def test_threads_write_in_the_order_in_which_they_came(table):
    """Each would overtake those before it if the quickest to wake were the next."""
    order: list[int] = []
    line = Line()
    line.join()

    def come(number: int) -> None:
        line.join()
        order.append(number)
        time.sleep(0.001)
        line.leave()

    threads = []
    for number in range(20):
        threads.append(threading.Thread(target=come, args=(number,)))
        threads[-1].start()
        while len(line._waiting) <= number:
            time.sleep(0.001)
    line.leave()
    for thread in threads:
        thread.join()
    assert order == list(range(20))


def test_several_writes_of_a_statement_alone_wait_once_and_leave(table):
    with closing(connect(table)) as connection, connection.cursor() as cursor:
        cursor.executemany("insert into counts values (%s)", [(1,), (2,)])
        assert cursor.execute("select count(*) from counts").fetchone() == (3,)
    assert is_free(table)
