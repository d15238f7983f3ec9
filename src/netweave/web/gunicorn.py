"""How gunicorn runs the server: one process with threads, that ends with whoever started it.

One process is enough: the work is done by the workers, and a page is a few milliseconds.
"""

from __future__ import annotations

from typing import Any

from netweave.web.work.worker import end_with_parent

wsgi_app = "netweave.web.wsgi"
worker_class = "gthread"
workers = 1
threads = 16
timeout = 120
graceful_timeout = 5
keepalive = 15
worker_tmp_dir = "/dev/shm"
control_socket_disable = True
loglevel = "warning"


def when_ready(server: Any) -> None:
    """End with the parent."""
    end_with_parent()
