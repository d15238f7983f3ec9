"""Gunicorn's configuration: two processes with threads, which end with their parent.

The work is done elsewhere, at lower priority; a page is a few milliseconds of Python, of which a process
does one after the other. The threads are there for slow lines: an upload has one until it has arrived.
"""

from __future__ import annotations

import sys
from typing import Any

from netweave.web.supervised_processes import say_ready
from netweave.web.work.worker import end_with_parent

wsgi_app = "netweave.web.wsgi"
worker_class = "netweave.web.fair_worker.Worker"
workers = 2
threads = 32
timeout = 120
graceful_timeout = 5
keepalive = 15
worker_tmp_dir = "/dev/shm"
control_socket_disable = True
loglevel = "warning"

SWITCH_SECONDS = 0.0005
"""After so long a thread makes way for another: at Python's own 5 ms whoever holds the database's lock, for
whom all others wait, waits longer for its turn than for the database."""


def when_ready(server: Any) -> None:
    """End with the parent."""
    end_with_parent()


def post_worker_init(worker: Any) -> None:
    """Load what the first visitor would wait for: the addresses with all behind them, and the samples."""
    from django.urls import get_resolver

    from netweave.web.samples import samples

    sys.setswitchinterval(SWITCH_SECONDS)
    _ = get_resolver().url_patterns
    samples()
    say_ready()
