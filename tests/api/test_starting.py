"""``netweave.train(job, devices=...)``: processes started from Python, and what comes back from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave.api.starting import _deeply, pickle
from netweave.errors import RunError, UsageError
from netweave.symbol.infer import to_graph
from netweave.training import Ended, Note, Updated
from tests.parallel import nets

STEPS = 12


@pytest.fixture
def job(tmp_path):
    return nets.job(nets.write(tmp_path, "resnet", steps=STEPS))


def arrays_of(net):
    return {key: tensor.detach().numpy().copy() for key, tensor in net.params.items()}


@pytest.mark.multi
@pytest.mark.slow
def test_a_job_in_memory_is_trained_by_several_processes(job):
    """Arrays in memory, a Job that was changed after it was read, events of the first rank, and the net."""
    seen = []
    job = replace(job, schedule=replace(job.schedule, max_iterations=STEPS - 2))
    data = {"train": {key: array.astype(np.float32) for key, array in nets.records().items()}}
    net = netweave.train(job, data=data, devices="cpu:3", batch="split", seed=4, watch=seen.append)
    alone: list[object] = []
    expected = netweave.train(job, data=data, seed=4, watch=alone.append)
    found, wanted = arrays_of(net), arrays_of(expected)
    assert found.keys() == wanted.keys()
    for key in wanted:
        np.testing.assert_allclose(found[key], wanted[key], rtol=0, atol=2e-5, err_msg=key)
    assert any("3 ranks" in event.text for event in seen if isinstance(event, Note))
    losses = [[event.loss for event in events if isinstance(event, Updated)] for events in (seen, alone)]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-5)
    assert len(losses[0]) == STEPS - 2
    assert isinstance(seen[-1], Ended)


@pytest.mark.multi
@pytest.mark.slow
def test_an_error_of_a_rank_is_raised_here_with_its_own_words(job):
    with pytest.raises(RunError, match=r"holds no records itself|has no data|give arrays"):
        netweave.train(job, devices="cpu:2", seed=4)


@pytest.mark.multi
@pytest.mark.slow
def test_an_error_of_the_callers_own_watch_is_raised_when_the_run_is_over(job):
    """The run itself goes on: the ranks do not wait for the caller."""
    data = {"train": {key: array.astype(np.float32) for key, array in nets.records().items()}}

    def fail(event):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        netweave.train(job, data=data, devices="cpu:2", seed=4, watch=fail)


def test_devices_that_are_not_there_are_refused(job):
    with pytest.raises(UsageError, match="no device 'cuda:0'"):
        netweave.train(job, devices="0,1")
    with pytest.raises(UsageError, match="give only one"):
        netweave.train(job, devices="cpu:2", device="cpu")


def test_a_job_with_what_cannot_be_sent_is_refused(job):
    job = replace(job, initializer={"type": lambda: None})
    with pytest.raises(UsageError, match=r"the Job cannot be sent to other processes .*; give the path"):
        netweave.train(job, devices="cpu:2", seed=4)


def test_a_deep_graph_can_be_sent():
    """Nodes nest in one another when they are packed, some ten calls for each."""
    net = netweave.symbol.Variable("data")
    for number in range(1500):
        net = netweave.symbol.Activation(net, act_type="relu", name=f"relu{number}")
    graph = to_graph(net, {"data": (2, 4)}, title="deep")
    packed = []
    _deeply(lambda: packed.append(pickle.dumps(graph)))
    assert len(pickle.loads(packed[0]).nodes) == len(graph.nodes) == 1500
