"""A thread that computes gives way to others, and keeps its share of the processors."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from netweave.training.process import SLICE_NS, let_others_interrupt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a scheduler of Linux")


def in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def settings():
    """Return policy, nice value and, where the kernel has it, the slice of the calling thread."""
    try:
        rows = Path("/proc/thread-self/sched").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        rows = []
    slices = [int(row.split(":")[1]) for row in rows if row.startswith("se.slice")]
    return os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0), *slices


def test_only_the_slice_of_the_calling_thread_changes():
    before = settings()

    def change():
        return let_others_interrupt(), settings()

    could, after = in_a_thread(change)
    if not could:
        pytest.skip("this system has no sched_setattr, or forbids it")
    assert after[:2] == before[:2]
    if len(before) == 3:
        assert after[2] == SLICE_NS != before[2]
    assert settings() == before


def test_another_policy_is_left_alone():
    def change():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        return let_others_interrupt(), os.sched_getscheduler(0)

    assert in_a_thread(change) == (False, os.SCHED_BATCH)
