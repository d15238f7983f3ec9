"""Processes of a workbench that are kept running: started again when they end, unless they end at once.

A part that was at work is started again at once, however it ended. One that ends before it is ready, or soon
after and by itself, would end again: the wait doubles with each try, and after a few the workbench stops with
the part's last words. A part that is killed from outside, for want of memory say, is tried without end.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from netweave.errors import RunError

log = logging.getLogger(__name__)

RESTART_SECONDS = 2.0
"""From one start to the next; from a failed start on it doubles."""

MAX_RESTART_SECONDS = 10.0

SETTLED_SECONDS = 5.0
"""A part that is ready for so long is at work."""

MAX_TRIES = 4

READY = "NETWEAVE_READY_FD"
"""In this environment variable a part finds the open file that it says in that it is ready."""

LAST_LINES = 50
_EXCEPTION = re.compile(r"(\w+\.)*\w*(Error|Exception|Exit|NotReady|Configured)\b(: |$)")
_KILLED = (-signal.SIGKILL, -signal.SIGTERM)


def say_ready() -> None:
    """Say that this process is ready, if a workbench has started it."""
    number = os.environ.pop(READY, "")
    if number:
        with suppress(OSError):  # nobody asks any more
            os.write(int(number), b"1")


class Part:
    """A process that is kept running."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Begin with nothing running.

        Args:
            name: What it is called in messages.
            command: What is run. It ends when its standard input does.
        """
        self._name, self._command = name, command
        self._process: subprocess.Popen[bytes] | None = None
        self._started = self._next_start = float("-inf")
        self._ready: int | None = None
        self._ready_since: float | None = None
        self._num_failed = 0
        self._said: deque[str] = deque(maxlen=LAST_LINES)
        self._listening: threading.Thread | None = None

    def keep(self) -> None:
        """Start the process if it does not run, though not again at once.

        Raises:
            RunError: It ended by itself several times, as soon as it was started.
        """
        now = time.monotonic()
        if self._process is None:
            if now >= self._next_start:
                self._start(now)
            return
        status = self._process.poll()  # before it is asked: what has ended says no more
        self._ask_ready(now)
        if status is not None:
            self._note_end(status, now)

    def _start(self, now: float) -> None:
        ready, told = os.pipe()
        os.set_blocking(ready, False)
        # in a group of its own, so that Ctrl-C reaches this process only; not in a session of its own, since
        # Linux shares out the processor among sessions, and all that reads and compares, nice as it is, would
        # get twice as much of it as the pages
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
            pass_fds=(told,),
            env={**os.environ, READY: str(told)},
        )
        os.close(told)
        self._started, self._ready, self._ready_since = now, ready, None
        self._said.clear()
        assert self._process.stderr is not None
        self._listening = threading.Thread(
            target=_pass_on, args=(self._process.stderr, self._said), daemon=True
        )
        self._listening.start()

    def _ask_ready(self, now: float) -> None:
        if self._ready is None:
            return
        try:
            said = os.read(self._ready, 1)
        except BlockingIOError:
            return
        if said:
            self._ready_since = now
        os.close(self._ready)
        self._ready = None

    def _note_end(self, status: int, now: float) -> None:
        """Decide when the process is started again.

        Raises:
            RunError: Not any more.
        """
        self.end()
        was_killed, is_ready = status in _KILLED, self._ready_since is not None
        settled = self._ready_since is not None and now - self._ready_since >= SETTLED_SECONDS
        self._ready_since = None
        if settled or (is_ready and was_killed):
            self._num_failed, self._next_start = 0, self._started + RESTART_SECONDS
            return
        self._num_failed += 1
        if self._num_failed >= MAX_TRIES and not was_killed:
            raise RunError(
                f"{self._name} ended {self._num_failed} times as soon as it was started, the last time with "
                f"{_status_text(status)}: {last_words(self._said)}; correct that (its messages are above), "
                "then start the workbench again"
            )
        wait = min(MAX_RESTART_SECONDS, RESTART_SECONDS * 2 ** (self._num_failed - 1))
        self._next_start = now + wait
        log.warning("%s ended with %s; next try in %g s", self._name, _status_text(status), wait)

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.terminate()
            if process.stdin:
                process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
        if self._listening is not None:
            self._listening.join(1)  # longer where processes that it started are still ending
        if self._ready is not None:
            os.close(self._ready)
            self._ready = None


def _pass_on(stream: IO[bytes], said: deque[str]) -> None:
    """Write what a part says to where this process writes, and keep the end of it."""
    with stream:
        for line in stream:
            said.append(line.decode(errors="replace").rstrip())
            with suppress(OSError):  # nobody listens; the part is not to wait for that
                os.write(2, line)


def last_words(lines: Sequence[str]) -> str:
    """Return the line that tells most of why a process ended: its last exception, else its last line.

    >>> last_words(["Traceback ...", "  x", "ValueError: no such port", "[ERROR] Worker failed to boot."])
    'ValueError: no such port'
    >>> last_words(["", "Connection in use: ('127.0.0.1', 8642)", ""])
    "Connection in use: ('127.0.0.1', 8642)"
    >>> last_words([])
    'it said nothing'
    """
    told = [line for line in lines if line.strip()]
    raised = [line for line in told if _EXCEPTION.match(line)]
    return (raised or told or ["it said nothing"])[-1]


def _status_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
