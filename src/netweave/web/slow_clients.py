"""A gunicorn worker that a client cannot hold by sending nothing, or its request's head in single bytes.

Each connection takes a thread from its first byte on. gunicorn waits without end for the rest of a head and
for the next part of a body, so that some dozens of clients that stand still would hold all threads.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from typing import Any

from gunicorn.workers.gthread import ThreadWorker

HEAD_SECONDS = 10.0
"""The whole head of a request has arrived by then; browsers send it at once."""

SILENT_SECONDS = 30
"""No connection that an upload comes over is quiet for longer."""

CHECK_SECONDS = 1.0


class Worker(ThreadWorker):
    """Threads, with a limit on how long they wait for a client."""

    def init_process(self) -> None:
        """Begin to watch."""
        self._heads: dict[Any, float] = {}
        threading.Thread(target=self._watch, daemon=True).start()
        super().init_process()

    def enqueue_req(self, conn: Any) -> None:
        """Have a thread handle a connection; the time that it waits for a thread counts as well."""
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", SILENT_SECONDS, 0))
        self._heads[conn] = time.monotonic() + HEAD_SECONDS
        super().enqueue_req(conn)

    def handle(self, conn: Any) -> Any:
        """Handle a connection."""
        try:
            return super().handle(conn)
        finally:
            self._heads.pop(conn, None)

    def handle_request(self, req: Any, conn: Any) -> Any:
        """Handle a request whose head is there."""
        self._heads.pop(conn, None)
        return super().handle_request(req, conn)

    def _watch(self) -> None:
        """End what is read of connections whose head does not come, which wakes the thread that waits for it.

        What has arrived is still read, and answered: a head that is whole may only have waited for a thread.
        """
        while True:
            time.sleep(CHECK_SECONDS)
            now = time.monotonic()
            for conn, deadline in list(self._heads.items()):
                if now > deadline:
                    with suppress(OSError):
                        conn.sock.shutdown(socket.SHUT_RD)
