"""A store over HTTP, as object stores speak it: ranges of bytes, slow answers and sudden death on demand."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Store:
    """A folder served on a port of this machine.

    Attributes:
        folder: What is served.
        ranges: Whether ranges are served; else every answer is the whole file.
        failures: So many further requests for content are answered by 503.
        served: Bytes of content sent.
        requests: Requests for content.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranges = True
        self.failures = 0
        self.served = 0
        self.requests = 0
        self.lock = threading.Lock()
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: Store

    def do_HEAD(self) -> None:
        self.answer(head=True)

    def do_GET(self) -> None:
        self.answer(head=False)

    def answer(self, *, head: bool) -> None:
        path = self.store.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        status = 200
        if asked and self.store.ranges:
            status = 206
            end = int(asked[2]) + 1 if asked[2] else len(content)
            content = content[int(asked[1]) : end]
        if not head:
            with self.store.lock:
                self.store.requests += 1
                failing = self.store.failures > 0
                self.store.failures -= failing
                if failing:
                    status, content = 503, b""
                self.store.served += len(content)
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if not head:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[Store]:
    """Serve a folder."""
    store = Store(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"store": store}))
    server.daemon_threads = True
    store.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
