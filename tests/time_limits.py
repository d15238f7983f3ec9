"""A limit on processor time, for tests that draw what they run."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


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
