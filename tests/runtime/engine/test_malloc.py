"""Memory of large buffers that are freed between others that stay."""

from __future__ import annotations

import multiprocessing
import platform
from pathlib import Path

import numpy as np
import pytest

from netweave.runtime.engine import malloc

BUFFER = 4 << 20
NUM_BUFFERS = 48
KEPT = 4
"""Every fourth buffer stays."""


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def keep_some(gives_back, tell):
    """Tell how much a process holds of buffers of which most were freed."""
    if gives_back:
        tell.send(malloc.give_back_large_buffers())
    del (first := [np.ones(31 << 20, np.uint8)])[:]  # from now on glibc's heap holds buffers of this size
    before = resident_bytes()
    buffers = [np.ones(BUFFER, np.uint8) for _ in range(NUM_BUFFERS)]
    kept = buffers[::KEPT]
    del buffers, first
    tell.send(resident_bytes() - before)
    assert len(kept) == NUM_BUFFERS // KEPT


def told(gives_back):
    context = multiprocessing.get_context("spawn")
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=keep_some, args=(gives_back, tell))
    process.start()
    answers = [hear.recv() for _ in range(1 + gives_back)]
    process.join()
    return answers


@pytest.mark.multi
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the parameters are glibc's")
def test_large_buffers_that_are_freed_leave_the_process():
    (without,) = told(False)
    is_set, with_it = told(True)
    assert is_set
    held = BUFFER * NUM_BUFFERS // KEPT
    assert with_it < 1.2 * held
    assert without > 3 * held


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert malloc.give_back_large_buffers() is False
