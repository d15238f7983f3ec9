"""A child process and what its worker does meanwhile: signs of life, limits, the end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from netweave.web.work import child
from netweave.web.work.child import Request

SIGN_SECONDS = 1.0
"""So often a sign of life is given."""

EARLY_SECONDS, EARLY_SIGN_SECONDS = 2.0, 0.1
"""In the beginning signs are given more often: a second file ends the reading of the first."""

GRACE_SECONDS = 0.5
"""So long a child that has said its last word may take to end."""

FORK_SERVER_IS_GONE = 255
"""What ``multiprocessing`` gives for the status of a process whose fork server has ended."""

_fork_server = multiprocessing.get_context("forkserver")
# readers and runtimes are imported once, not for every job
_fork_server.set_forkserver_preload([f"{child.__package__}.background", child.__name__])


class LostError(Exception):
    """The job is not this worker's any more."""


class FailedError(Exception):
    """The child failed; the message is for the user.

    Attributes:
        facts: What a page offers to do about it: ``open_inputs``, ``needs_code``.
    """

    def __init__(self, message: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = {"open_inputs": [], "needs_code": False, **(facts or {})}


class DiedError(Exception):
    """The child ended without a word.

    Attributes:
        was_killed: Whether it was killed from outside, for want of memory, say; it crashed otherwise.
    """

    def __init__(self, *, was_killed: bool) -> None:
        super().__init__()
        self.was_killed = was_killed


def warm_up() -> None:
    """Have the imports begin that the first job would wait for, in a process of their own."""
    forkserver.ensure_running()


Alive = Callable[[str, Mapping[str, str]], bool]
"""Gives a sign of life with what is being done, and what is known of the result so far; False if the job is
lost."""


class Child:
    """A child process.

    Args:
        request: The first thing that it does.
    """

    def __init__(self, request: Request) -> None:
        self._ours, theirs = _fork_server.Pipe()
        self._process = _fork_server.Process(target=child.work, args=(request, theirs), daemon=False)
        self._process.start()
        theirs.close()

    def ask(self, request: Request) -> None:
        """Have it do something else, once it has done what it was made for.

        Raises:
            DiedError: It has ended.
        """
        try:
            self._ours.send(request)
        except OSError:
            raise DiedError(was_killed=True) from None

    def follow(self, *, max_seconds: float, alive: Alive) -> None:
        """Wait until it has done what it was asked for; the arguments and the errors are those of ``run``."""
        stage, given = "starting", 0.0
        known: dict[str, str] = {}
        began = time.monotonic()
        deadline = began + max_seconds
        while True:
            now = time.monotonic()
            every = EARLY_SIGN_SECONDS if now - began < EARLY_SECONDS else SIGN_SECONDS
            if self._ours.poll(max(0.0, min(every, deadline - now))):
                kind, text, *rest = _received(self._ours, self._process)
                if kind == "done":
                    return
                if kind == "failed":
                    raise FailedError(text, *rest)
                if kind == "verdict":
                    known, given = {"verdict": text, "sentence": rest[0]}, 0.0
                else:
                    stage = text
            if time.monotonic() > deadline:
                raise FailedError(
                    f"took longer than the {max_seconds:g} seconds that this workbench allows ({stage}); "
                    "use the command line for it"
                )
            if time.monotonic() - given >= every / 2:
                if not alive(stage, known):
                    raise LostError
                given = time.monotonic()

    def end(self, *, at_once: bool = False) -> None:
        """End it, with all that it has started; it has a moment to end by itself, unless ``at_once``."""
        self._ours.close()
        _end(self._process, grace_s=0.0 if at_once else GRACE_SECONDS)


def run(request: Request, *, max_seconds: float, alive: Alive) -> Child | None:
    """Carry out a request in a child process; return it if it stays, to be asked once more and ended.

    Args:
        request: What to do.
        max_seconds: Longest time.
        alive: Gives a sign of life.

    Raises:
        DiedError: The child ended without a word.
        FailedError: The child failed, or was ended for its time.
        LostError: The job is not this worker's any more; the child is ended.
    """
    process = Child(request)
    try:
        process.follow(max_seconds=max_seconds, alive=alive)
    except BaseException:
        process.end(at_once=True)
        raise
    if request.stays:
        return process
    process.end()
    return None


def _received(pipe: Connection, process: BaseProcess) -> Sequence[Any]:
    try:
        message: Sequence[Any] = pipe.recv()
    except EOFError:
        process.join(5)
        # without its fork server, which was then killed as well, nobody knows its status
        raise DiedError(was_killed=process.exitcode in {-signal.SIGKILL, FORK_SERVER_IS_GONE}) from None
    return message


def _end(process: BaseProcess, *, grace_s: float) -> None:
    process.join(grace_s)
    if process.is_alive():
        process.kill()
    if (
        process.pid
    ):  # what it has started, and itself where the fork server is gone, which told whether it lives
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.join()
