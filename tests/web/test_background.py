"""Reading and comparing leave the processor to the pages."""

from __future__ import annotations

import os
import time

import pytest

from tests.web.running import Workbench


@pytest.mark.timing
@pytest.mark.multi
def test_what_reads_and_compares_is_nice_to_the_pages_of_the_same_session(tmp_path):
    """Niceness counts only within a session where the kernel shares out the processor among sessions."""
    with Workbench(tmp_path / "data") as bench:
        deadline = time.monotonic() + 30
        while not (found := bench.processes("multiprocessing.forkserver")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        server, worker = bench.processes("gunicorn"), bench.processes("netweave.web.work.worker")
        own = os.getpriority(os.PRIO_PROCESS, bench.process.pid)
        while os.getpriority(os.PRIO_PROCESS, found[0]) == own:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        everyone = [bench.process.pid, *server, *worker, *found]
        assert len({os.getsid(process) for process in everyone}) == 1
        assert {os.getpriority(os.PRIO_PROCESS, process) for process in (*server, *worker)} == {own}
        assert os.getpriority(os.PRIO_PROCESS, found[0]) == min(19, own + 10)
        groups = {os.getpgid(process) for process in (*server, *worker)}
        assert os.getpgid(bench.process.pid) not in groups, "Ctrl-C reaches the first process only"
