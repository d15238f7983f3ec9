"""Child processes that stay to answer further questions about the code that they have imported.

A comparison reads code, perhaps a second time with other sizes, and then runs it at several lengths. The
imports of a framework take most of the time of each. A child that stays is guarded as any other, and is
watched while nobody asks it anything; nothing is read from where it could still write.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netweave.errors import CodeError
from netweave.files.sandbox import (
    GuardedCommand,
    Limits,
    Outcome,
    end,
    prepared,
    report_end,
    scratch_folder,
    too_long,
)
from netweave.files.seccomp import ERROR, ON_SOCKET

if TYPE_CHECKING:
    import subprocess

LARGEST_WEIGHTS = 1 << 28
"""A child whose weights have more bytes does not stay: what it holds may be needed elsewhere."""

COPIED_BYTES = 1 << 20
"""So much of a file is copied at once."""


@dataclass(slots=True)
class PersistentChild:
    """A guarded process that answers one question after another.

    Attributes:
        given: A folder that it can read, for files that a question is about.
        place: The file that holds its code, for messages.
    """

    given: Path
    place: str
    _command: GuardedCommand
    _limits: Limits
    _process: subprocess.Popen[bytes]
    _channel: socket.socket
    _status: int | None = None
    _broken: CodeError | None = None
    _watch: threading.Thread | None = None
    _asked: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def start(
        cls,
        stack: ExitStack,
        program: Path,
        *,
        readable: Sequence[Path],
        place: str,
        trust: bool = False,
        limits: Limits | None = None,
    ) -> PersistentChild:
        """Start a child.

        Args:
            stack: It ends with it.
            program: The program; it takes requests with ``answer``.
            readable: The files that it may read.
            place: The file that holds its code, for messages.
            trust: Run it without the guard.
            limits: What it may use; the time is that of each question.

        Raises:
            CodeError: There is no guard and no trust.
        """
        limits = (limits or Limits()).inherited()
        given = stack.enter_context(scratch_folder()) / "given"
        given.mkdir()
        given.chmod(0o755)
        files = [*readable, given]
        command = stack.enter_context(
            prepared(program, [ON_SOCKET], readable=files, place=place, trust=trust, limits=limits)
        )
        own, others = socket.socketpair()
        with others:
            process = command.start(others.fileno())
        child = cls(given, place, command, limits, process, own)
        stack.callback(child.end)
        child._watch = threading.Thread(target=child._stay_within_limits, daemon=True)
        child._watch.start()
        return child

    @property
    def is_alive(self) -> bool:
        """True if it can be asked."""
        return self._watch is not None and self._watch.is_alive()

    @contextmanager
    def ask(self, request: dict[str, Any], names: Sequence[str]) -> Iterator[Outcome]:
        """Ask for files, and give copies of them until the context ends.

        Raises:
            CodeError: Time or memory ran out, or it wrote too much.
        """
        with self._asked, scratch_folder() as copies:
            if not self._is_answered(request):
                self.end()
                if self._broken is not None:
                    raise self._broken
                yield self._command.outcome(self._status or 0, limits=self._limits, place=self.place)
                return
            left = Outcome(0, report_end(self._command.report), self._command.folder)
            for path in map(left.file, (*names, ERROR)):
                if path is not None:
                    _copy(path, copies / path.name)
            yield replace(left, folder=copies)

    def give(self, file: Path) -> Path:
        """Copy a file to where it can be read, and return the copy."""
        return Path(shutil.copy(file, self.given))

    def end(self) -> None:
        """End it, and all that it started."""
        end(self._process)
        if self._watch is not None:
            self._watch.join()
        self._channel.close()

    def _is_answered(self, request: dict[str, Any]) -> bool:
        """Send a request and return whether there are files; False if the child ends instead."""
        self._channel.settimeout(self._limits.seconds)
        try:
            self._channel.sendall(json.dumps(request).encode() + b"\n")
            return bool(self._channel.recv(1))
        except TimeoutError:
            self._broken = too_long(self._limits, self.place)
            return False
        except OSError:  # it has ended
            return False

    def _stay_within_limits(self) -> None:
        unlimited = replace(self._limits, seconds=threading.TIMEOUT_MAX)  # each question has its own time
        try:
            self._status = self._command.wait(self._process, limits=unlimited, place=self.place)
        except CodeError as error:
            self._broken = self._broken or error
            end(self._process)


def _copy(path: Path, target: Path) -> None:
    """Copy what a process left that is still there: no link that it makes meanwhile is followed."""
    size = path.lstat().st_size
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(opened, "rb") as source, target.open("wb") as copy:  # noqa: PTH123 - a descriptor
        while size > 0 and (part := source.read(min(size, COPIED_BYTES))):
            copy.write(part)
            size -= len(part)


STARTED_TOGETHER = 2
"""So many children are started, and asked, at the same time."""


@dataclass(slots=True)
class Children:
    """The children that stay until a context ends, by what they can answer.

    Attributes:
        threads: Threads to start them in that last as long: Linux ends a child with the *thread* that started
            it (``PR_SET_PDEATHSIG``).
    """

    threads: ThreadPoolExecutor = field(default_factory=partial(ThreadPoolExecutor, STARTED_TOGETHER))
    _stack: ExitStack = field(default_factory=ExitStack)
    _children: dict[Hashable, PersistentChild] = field(default_factory=dict)
    _is_open: bool = True
    _started: threading.Lock = field(default_factory=threading.Lock)

    def child(self, key: Hashable, start: Callable[[ExitStack], PersistentChild]) -> PersistentChild | None:
        """Return the child of a key, started if there is none; None once the context has ended.

        Args:
            key: What the code, its files and its protections are.
            start: Starts one.
        """
        with self._started:
            if not self._is_open:
                return None
            known = self._children.get(key)
            if known is None or not known.is_alive:
                self._children[key] = start(self._stack)
            return self._children[key]

    def close(self) -> None:
        """End all of them."""
        with self._started:
            self._is_open = False
            self._stack.close()
        self.threads.shutdown(cancel_futures=True)


_staying: ContextVar[Children | None] = ContextVar("_staying", default=None)


@contextmanager
def keep_children() -> Iterator[None]:
    """Let children that read code stay until the context ends, for further questions."""
    children = Children()
    token = _staying.set(children)
    try:
        yield
    finally:
        _staying.reset(token)
        children.close()


def kept_children() -> Children | None:
    """Return the children of the context that this code runs in; None if none may stay."""
    return _staying.get()
