"""Who writes waits for the write lock in line, in the kernel, instead of asking SQLite again and again.

SQLite lets one connection write at a time. One that finds the lock taken sleeps and asks again, up to 100 ms
later: under a burst of uploads whoever has waited longest gets it last. Here a transaction, or a statement
that writes outside of one, first takes a lock on a file beside the database, which the kernel hands on.

The kernel wakes all who wait for such a lock, and the quickest gets it; so the threads of a process wait for
each other in a line of their own, and only the first of them for the other processes.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.backends.sqlite3 import base

WRITES = ("INSERT", "UPDATE", "DELETE")


class Line:
    """Threads of this process, one after the other in the order in which they came.

    >>> line = Line()
    >>> line.join()
    >>> line.leave()
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[threading.Lock] = deque()
        self._is_held = False

    def join(self) -> None:
        """Wait for one's turn."""
        with self._guard:
            if not self._is_held:
                self._is_held = True
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append(turn)
        turn.acquire()  # until the one before lets go of it

    def leave(self) -> None:
        """Give the turn to the next."""
        with self._guard:
            if self._waiting:
                self._waiting.popleft().release()
            else:
                self._is_held = False


_LINES: defaultdict[str, Line] = defaultdict(Line)
"""By database."""


class Cursor(base.SQLiteCursorWrapper):
    """A cursor whose writes outside of a transaction wait for their turn."""

    _database: DatabaseWrapper

    def execute(self, query: Any, params: Any = None) -> Any:
        """Execute a statement when it is its turn."""
        with self._database.in_line(query):
            return super().execute(query, params)

    def executemany(self, query: Any, param_list: Any) -> Any:
        """Execute a statement several times when it is its turn."""
        with self._database.in_line(query):
            return super().executemany(query, param_list)


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection that writes when it is its turn."""

    _line: int | None = None

    def create_cursor(self, name: Any = None) -> Cursor:
        """Return a cursor."""
        cursor: Cursor = self.connection.cursor(factory=Cursor)
        cursor._database = self
        return cursor

    @contextmanager
    def in_line(self, query: Any) -> Iterator[None]:
        """Hold the line for a statement if it writes and its transaction does not hold it already."""
        if self._line is not None or not str(query).lstrip()[:6].upper().startswith(WRITES):
            yield
            return
        self._join()
        try:
            yield
        finally:
            self._leave()

    def _join(self) -> None:
        name = str(self.settings_dict["NAME"])
        _LINES[name].join()
        try:
            line = os.open(f"{name}-line", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(line, fcntl.LOCK_EX)
            except BaseException:
                os.close(line)
                raise
        except BaseException:
            _LINES[name].leave()
            raise
        self._line = line

    def _start_transaction_under_autocommit(self) -> None:
        self._join()
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # Django's stubs leave private methods out
        except BaseException:
            self._leave()
            raise

    def _commit(self) -> Any:
        try:
            return super()._commit()  # type: ignore[misc]  # Django's stubs leave private methods out
        finally:
            self._leave()

    def _rollback(self) -> Any:
        try:
            return super()._rollback()  # type: ignore[misc]  # Django's stubs leave private methods out
        finally:
            self._leave()

    def _close(self) -> Any:
        try:
            return super()._close()  # type: ignore[misc]  # Django's stubs leave private methods out
        finally:
            self._leave()

    def _leave(self) -> None:
        if self._line is not None:
            os.close(self._line)
            self._line = None
            _LINES[str(self.settings_dict["NAME"])].leave()
