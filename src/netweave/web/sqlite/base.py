"""Transactions wait for the write lock in line, in the kernel, instead of asking SQLite again and again.

SQLite lets one connection write at a time. One that finds the lock taken sleeps and asks again, up to 100 ms
later: under a burst of uploads whoever has waited longest gets it last. Here a transaction first takes a lock
on a file beside the database, which the kernel hands on.
"""

from __future__ import annotations

import fcntl
import os
from typing import Any

from django.db.backends.sqlite3 import base


class DatabaseWrapper(base.DatabaseWrapper):
    """A connection whose transactions begin when it is their turn."""

    _line: int | None = None

    def _start_transaction_under_autocommit(self) -> None:
        name = self.settings_dict["NAME"]
        self._line = os.open(f"{name}-line", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._line, fcntl.LOCK_EX)  # held by this open file: threads wait as processes do
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
