"""Memory that stays with the process: no page is fetched again."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import platform

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from netweave.training.process import keep_memory  # noqa: E402 - after the check for torch

BUFFER = 40 << 20
"""Above 32 MiB, from where glibc by itself always maps a buffer of its own and gives it back."""

LARGEST_PAGE = 2 << 20
"""Where the system gives out huge pages unasked, a buffer takes so many bytes a fetch."""

ROUNDS = 40


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert keep_memory() is False


def faults(keep, tell):
    """Tell how many pages a thread fetched each time it filled a fresh buffer; in a thread, as steps are."""
    import resource
    import threading

    if keep:
        tell.send(keep_memory())

    def fetched():
        return resource.getrusage(resource.RUSAGE_THREAD).ru_minflt

    def work():
        counts = []
        for _ in range(ROUNDS):
            before = fetched()
            torch.empty(BUFFER, dtype=torch.uint8).fill_(1)
            counts.append(fetched() - before)
        tell.send(counts)

    torch.set_num_threads(1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def told_by(function, *args):
    """Return what a function tells in a process of its own."""
    context = multiprocessing.get_context("spawn")
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=function, args=(*args, tell))
    process.start()
    tell.close()
    told = []
    with contextlib.suppress(EOFError):
        while True:
            told.append(hear.recv())
    process.join()
    assert process.exitcode == 0
    return told


glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is mallopt in glibc only")


@glibc
@pytest.mark.multi
def test_a_buffer_of_the_same_size_is_there_already():
    kept, counts = told_by(faults, True)
    assert kept is True
    assert counts[0] >= BUFFER // LARGEST_PAGE
    # glibc's lists of small chunks fill up first, and the system may take single pages back at any time
    assert np.median(counts[ROUNDS // 2 :]) == 0, counts


@glibc
@pytest.mark.multi
def test_otherwise_each_buffer_is_fetched_anew():
    (counts,) = told_by(faults, False)
    assert min(counts) >= BUFFER // LARGEST_PAGE


def trimmed(tell):
    """Tell by how many bytes the heap shrinks when 3 GiB at its end, never written to, are freed."""
    keep_memory()
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
    start, end = libc.malloc(3 << 30), libc.sbrk(0)
    assert start < end
    libc.free(start)
    tell.send(end - libc.sbrk(0))


@glibc
@pytest.mark.multi
def test_more_than_two_gigabytes_stay_as_well():
    assert told_by(trimmed) == [0]
