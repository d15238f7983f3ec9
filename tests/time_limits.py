"""Limits of tests that draw what they run: on processor time, and on the number of draws in CI."""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


IN_CI = bool(os.environ.get("CI"))


def many(number: int, *, in_ci: int) -> int:
    """Return how many examples a long drawn test runs: the lower number if the variable ``CI`` is set.

    Examples are the same in every run until the code changes, so CI would mostly repeat what it has seen. A
    change to what such a test is about is tried with all of them (``make test-slow``), or with new ones
    (``--hypothesis-profile=explore``).
    """
    return in_ci if IN_CI else number


class TooSlowError(AssertionError):
    """The body of ``within`` took too long: a failure that a busy machine can cause."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the body takes more of this process's own time, in a way that tests/outcomes.py recognises.

    A drawn test is not marked as one of times: tried again, it draws something else, and a fault that has
    nothing to do with time would pass as flaky.

    Raises:
        TooSlowError: It took more.
    """
    start = time.process_time()
    yield
    if (taken := time.process_time() - start) >= seconds:
        raise TooSlowError(f"it took {taken:.2f} s of processor time; the limit is {seconds:g} s")
