"""Waiting that ends: for calls that block for as long as TCP takes to give up, a quarter of an hour."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def within(seconds: float, task: Callable[[], T]) -> T:
    """Return what a task returns, or raise what it raises.

    A call to the store, or into gloo while it connects, takes a timeout and yet does not return while the
    link is down: its time begins only when the other side has answered. The thread of a task that is given
    up is left behind; it cannot be ended, and does not keep the process.

    Args:
        seconds: How long the task is waited for.
        task: What to do, on a thread of its own.

    Raises:
        TimeoutError: It has not ended.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(task())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name="within", daemon=True).start()
    return future.result(seconds)
