"""A worker of gunicorn in which addresses take turns, with time limits for requests."""

from __future__ import annotations

import os
import socket
import struct
import threading
import time
from collections import Counter, OrderedDict, deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from selectors import EVENT_READ
from typing import Any, Generic, TypeVar

from gunicorn.workers.gthread import TConn, ThreadWorker

# A client decides how long its request holds a thread: a slow line, a slow reader, a hundred connections at
# once. With one line for all, whoever has the most connections has the server; here only its own wait.

T = TypeVar("T")


class Turns(Generic[T]):
    """Requests that wait for a thread, by address.

    Used by one thread only.
    """

    def __init__(self, *, threads: int, share: int, reserved: int = 0) -> None:
        """Begin with nothing waiting.

        Args:
            threads: Requests that run at the same time.
            share: Those of one address.
            reserved: Threads that only addresses get of which nothing runs.
        """
        self._threads, self._share, self._reserved = threads, share, reserved
        self._waiting: OrderedDict[str, deque[T]] = OrderedDict()
        self._running: Counter[str] = Counter()

    def wait(self, address: str, request: T) -> None:
        """Put a request behind those of its address that wait."""
        self._waiting.setdefault(address, deque()).append(request)

    def next(self) -> T | None:
        """Return the request that runs now; None if all threads are taken, or nobody waits who may have one.

        >>> turns = Turns(threads=3, share=2)
        >>> for address, request in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
        ...     turns.wait(address, request)
        >>> [turns.next() for _ in range(4)]
        [1, 4, 2, None]
        >>> turns.done("a"), turns.next()
        (None, 3)
        """
        num_free = self._threads - self._running.total()
        if num_free <= 0:
            return None
        share = self._share if num_free > self._reserved else 1
        address = next((a for a in self._waiting if self._running[a] < share), None)
        if address is None:
            return None
        line = self._waiting[address]
        request = line.popleft()
        self._waiting.move_to_end(address)
        if not line:
            del self._waiting[address]
        self._running[address] += 1
        return request

    def num_waiting(self, address: str) -> int:
        """Return how many requests of an address wait."""
        return len(self._waiting.get(address, ()))

    def done(self, address: str) -> None:
        """Note that a request of an address has ended."""
        self._running[address] -= 1
        if not self._running[address]:
            del self._running[address]


# gunicorn gives a connection a thread from its first moment on, in the order of arrival, and waits without
# end for the rest of a request's head, for the next part of its body, and for a client that does not read
# its answer. Some dozens of connections of one client would hold all threads. Here
#
# - a connection gets a thread when something has arrived, and addresses take turns (``Turns``),
# - one address has only so many connections,
# - a connection is ended whose head is late, over which nothing moves, or over which too little moves.
#
# Behind a proxy all connections have its address, and it is the proxy that buffers slow requests: there the
# limits by address are off.

HEAD_SECONDS = 10.0
"""The whole head of a request has arrived by then; browsers send it at once."""

SILENT_SECONDS = 30.0
"""A request over whose connection nothing moves for so long is ended."""

SLOW_SECONDS, MIN_BYTES_PER_SECOND = 60.0, 8_000
"""A request that takes longer than this moves so much on average: 64 kbit/s, a modem's."""

CHECK_SECONDS = 1.0

MAX_CONNECTIONS = 128
"""Connections of one address to one process, which takes 1,000; a browser opens six."""

SHARE = 4
"""One address gets a quarter of the threads; another quarter is for addresses of which nothing runs."""


@dataclass(slots=True)
class _Progress:
    """Progress of a request that has a thread.

    Attributes:
        begun: When it got the thread.
        begun_bytes: What had moved over its connection by then.
        moved: When something was last seen to have moved.
        moved_bytes: What had moved by then.
        has_head: Whether its head is there.
    """

    begun: float
    begun_bytes: int
    moved: float
    moved_bytes: int
    has_head: bool = False


def bytes_moved(connection: socket.socket) -> int | None:
    """Return the bytes that the client has sent and acknowledged; None where the system does not say."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, option, 136)
        acknowledged, received = struct.unpack_from("=QQ", info, 120)  # struct tcp_info of <linux/tcp.h>
    except (OSError, struct.error):  # closed, or not TCP
        return None
    return int(acknowledged + received)


def is_stuck(progress: _Progress, num_bytes: int | None, now: float) -> bool:
    """Return whether a request is to be ended; notes what has moved.

    Args:
        progress: How far it was; changed.
        num_bytes: What has moved over its connection.
        now: The time.
    """
    if not progress.has_head:
        return now > progress.begun + HEAD_SECONDS
    if num_bytes is None:
        return False
    if num_bytes != progress.moved_bytes:
        progress.moved, progress.moved_bytes = now, num_bytes
    seconds = now - progress.begun
    is_slow = seconds > SLOW_SECONDS and num_bytes - progress.begun_bytes < seconds * MIN_BYTES_PER_SECOND
    return is_slow or now > progress.moved + SILENT_SECONDS


class Worker(ThreadWorker):
    """Threads that are shared out among addresses."""

    def load_wsgi(self) -> None:
        """Load the application, with its settings, and begin to watch."""
        super().load_wsgi()
        from django.conf import settings

        options = settings.OPTIONS
        self._is_shared = not options.proxy and not options.is_personal
        threads = self.cfg.threads
        quarter = max(1, threads // SHARE)
        self._turns: Turns[Any] = (
            Turns(threads=threads, share=quarter, reserved=quarter)
            if self._is_shared
            else Turns(threads=threads, share=threads)
        )
        self._progress: dict[Any, _Progress] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    def accept(self, listener: Any) -> None:
        """Accept a connection; it gets a thread once something arrives."""
        try:
            client_socket, client = listener.accept()
        except (BlockingIOError, ConnectionAbortedError):  # another process has taken it, or it is gone
            return
        conn = TConn(self.cfg, client_socket, client, listener.getsockname())
        if self._is_shared and self._num_connections(_address(conn)) >= MAX_CONNECTIONS:
            conn.close()
            return
        self.nr_conns += 1
        conn.set_timeout()
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, EVENT_READ, partial(self.on_pending_socket_readable, conn))

    def _num_connections(self, address: str) -> int:
        conns = (*self.keepalived_conns, *self.pending_conns, *self._progress)
        return self._turns.num_waiting(address) + sum(_address(conn) == address for conn in conns)

    def enqueue_req(self, conn: Any) -> None:
        """Have a connection's request handled when it is its address's turn."""
        self._turns.wait(_address(conn), conn)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        while (conn := self._turns.next()) is not None:
            super().enqueue_req(conn)

    def finish_request(self, conn: Any, fs: Any) -> None:
        """Give the thread of a request that has ended to the next."""
        self._turns.done(_address(conn))
        super().finish_request(conn, fs)
        self._begin_waiting()

    def handle(self, conn: Any) -> Any:
        """Handle a connection."""
        now, num_bytes = time.monotonic(), bytes_moved(conn.sock) or 0
        self._progress[conn] = _Progress(now, num_bytes, now, num_bytes)
        try:
            return super().handle(conn)
        finally:
            del self._progress[conn]

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Handle a request whose head is there."""
        self._progress[conn].has_head = True
        return super().handle_request(req, conn)

    def _watch(self) -> None:
        """End the connections of requests that are stuck, which wakes the threads that wait for them."""
        while True:
            time.sleep(CHECK_SECONDS)
            if os.getppid() != self.ppid:
                # gunicorn's own end waits for all threads, and with them keeps the port from the next start
                os._exit(1)
            now = time.monotonic()
            for conn, progress in list(self._progress.items()):
                if is_stuck(progress, bytes_moved(conn.sock), now):
                    with suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RDWR)


def _address(conn: Any) -> str:
    return str(conn.client[0]) if isinstance(conn.client, tuple) else ""
