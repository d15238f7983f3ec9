"""Memory that stays with the process: no page is fetched again."""

from __future__ import annotations

import multiprocessing
import platform

import pytest

torch = pytest.importorskip("torch")

from netweave.train import memory  # noqa: E402 - after the check for torch

BUFFER = 20_000_000
PAGE = 4096


def test_other_c_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    assert memory.keep_memory() is False


def faults(keep, tell):
    """Tell how many pages were fetched for a buffer that had been there often; in a thread, as steps are."""
    import resource
    import threading

    if keep:
        tell.send(memory.keep_memory())

    def work():
        for _ in range(20):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            torch.empty(BUFFER, dtype=torch.uint8).fill_(1)
        tell.send(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

    torch.set_num_threads(1)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


@pytest.mark.multi
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="there is mallopt in glibc only")
@pytest.mark.parametrize("keep", [True, False])
def test_a_buffer_of_the_same_size_is_there_already(keep):
    context = multiprocessing.get_context("spawn")
    hear, tell = context.Pipe(duplex=False)
    process = context.Process(target=faults, args=(keep, tell))
    process.start()
    tell.close()
    if keep:
        assert hear.recv() is True
    fetched = hear.recv()
    process.join()
    assert (fetched < BUFFER // PAGE // 10) == keep
