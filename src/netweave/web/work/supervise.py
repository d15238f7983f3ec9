"""A child process and what its worker does meanwhile: signs of life, limits, the end."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any

from netweave.web.work import child

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

    from netweave.web.work.child import Request

SIGN_SECONDS = 1.0
"""So often a sign of life is given."""

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


def warm_up() -> None:
    """Have the imports begin that the first job would wait for, in a process of their own."""
    forkserver.ensure_running()


def run(request: Request, *, max_seconds: float, alive: Callable[[str, Mapping[str, str]], bool]) -> None:
    """Carry out a request in a child process.

    Args:
        request: What to do.
        max_seconds: Longest time.
        alive: Gives a sign of life with what is being done, and what is known of the result so far; False
            if the job is lost.

    Raises:
        FailedError: The child failed, was ended for its time, or ended without a word.
        LostError: The job is not this worker's any more; the child is ended.
    """
    ours, theirs = _fork_server.Pipe(duplex=False)
    process = _fork_server.Process(target=child.work, args=(request, theirs), daemon=False)
    process.start()
    theirs.close()
    stage, given = "starting", 0.0
    known: dict[str, str] = {}
    deadline = time.monotonic() + max_seconds
    try:
        while True:
            if ours.poll(max(0.0, min(SIGN_SECONDS, deadline - time.monotonic()))):
                kind, text, *rest = _received(ours)
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
            if time.monotonic() - given >= SIGN_SECONDS / 2:
                if not alive(stage, known):
                    raise LostError
                given = time.monotonic()
    finally:
        ours.close()
        _end(process)


def _received(pipe: Connection) -> Sequence[Any]:
    try:
        message: Sequence[Any] = pipe.recv()
    except EOFError:
        raise FailedError(
            "the process that read it died without a message, most likely because it ran out of memory"
        ) from None
    return message


def _end(process: BaseProcess) -> None:
    process.join(0.5)
    if process.is_alive():
        process.kill()
        process.join()
