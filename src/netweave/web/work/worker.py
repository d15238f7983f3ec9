"""The worker's program: takes jobs from the queue, puts back what dead workers left, and deletes old uploads.

It ends when its standard input does, and so with whoever started it, however that ends. It may be killed
at any moment: what it was doing is done again.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import uuid

import django

log = logging.getLogger(__name__)

POLL_SECONDS = 0.2
SWEEP_SECONDS = 3.0
EXPIRY_SECONDS = 600.0


def main() -> None:
    """Work until the standard input ends."""
    end_with_parent()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "netweave.web.settings")
    django.setup()
    from django_tasks_db.management.commands.db_worker import Worker

    from netweave.web.supervised_processes import say_ready
    from netweave.web.work import supervise

    supervise.warm_up()
    threading.Thread(target=_sweep, daemon=True).start()
    say_ready()
    Worker(
        queue_names=["default"],
        interval=POLL_SECONDS,
        batch=False,
        backend_name="default",
        startup_delay=False,
        max_tasks=None,
        worker_id=uuid.uuid4().hex,
        excluded_queue_names=[],
    ).run()


def end_with_parent() -> None:
    """End this process when its standard input ends: whoever started it holds the other end."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def _sweep() -> None:
    from django.db import close_old_connections

    from netweave.web.work import storage
    from netweave.web.work.leases import requeue_lost
    from netweave.web.work.storage import (
        delete_unused_inputs,
        delete_unused_nets,
        release_abandoned,
        remove_left_scratch,
    )
    from netweave.web.work.tasks import TASKS

    pause, swept = threading.Event(), float("-inf")
    while not pause.wait(SWEEP_SECONDS):
        close_old_connections()
        try:
            if count := requeue_lost(TASKS):
                log.warning("%d jobs of workers that are gone were queued again", count)
            remove_left_scratch()
            if time.monotonic() - swept > EXPIRY_SECONDS:
                swept = time.monotonic()
                delete_unused_nets()
                delete_unused_inputs()
                release_abandoned()
                storage.remove_unnamed_files()
                storage.forget()
        except Exception:
            log.exception("cannot look for lost jobs and old nets")


if __name__ == "__main__":
    main()
