"""Helpers of OpenMP: the caller's go, those of the net's lane stay."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from netweave.runtime.backends.torch import device  # noqa: E402 - after the check for torch
from netweave.runtime.backends.torch.device import release_threads  # noqa: E402

gnu = pytest.mark.skipif(device._gnu_pause() is None, reason="torch computes by another OpenMP than GNU's")


@gnu
def test_a_thread_without_helpers_has_none_to_dismiss():
    assert release_threads()
    assert release_threads()


def test_other_libraries_are_left_alone(monkeypatch):
    monkeypatch.setattr(device, "_gnu_pause", lambda: None)
    assert release_threads() is False


@gnu
@pytest.mark.multi
def test_what_the_caller_computes_leaves_no_helpers_beside_those_of_the_net(tmp_path):
    """Between two steps the caller computes with three helpers; in the step there are the net's only."""
    program = """
        import os, sys, time
        from dataclasses import replace
        import numpy as np, torch
        from netweave import api
        from netweave.runtime.backends.torch import TorchNet
        from netweave.training import Updated

        torch.set_num_threads(4)
        big = torch.ones(1 << 20)
        seen, forward = [], TorchNet.forward

        def settled(count):
            for _ in range(500):
                if len(os.listdir("/proc/self/task")) <= count:
                    break
                time.sleep(0.01)
            return len(os.listdir("/proc/self/task"))

        def counted(net, module, inputs):
            big + 1                                     # the lane's helpers are there from now on
            seen.append(len(os.listdir("/proc/self/task")) if not seen else settled(seen[0]))
            return forward(net, module, inputs)

        TorchNet.forward = counted
        before = []

        def watch(event):
            if not isinstance(event, Updated):
                return
            alone = len(os.listdir("/proc/self/task"))
            big + 1
            before.append(len(os.listdir("/proc/self/task")) - alone)

        data = {"data": np.zeros((5, 6), np.float32), "label": np.zeros(5)}
        job = api.load_job(sys.argv[1], input_shapes={"data": (5, 6), "label": (5,)})
        job = replace(job, checkpoints=replace(job.checkpoints, at_end=False))
        api.train(job, data={"train": data, "test": data}, threads=1, watch=watch)
        assert before == [3] * len(before), before
        assert len(seen) > 2 and len(set(seen)) == 1, seen
    """
    from tests.training.small import SOLVER, write

    command = [sys.executable, "-c", textwrap.dedent(program), str(write(tmp_path, SOLVER))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
