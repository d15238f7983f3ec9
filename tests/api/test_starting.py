"""``netweave.train(job, devices=...)``: processes started from Python, and what comes back from them."""

from __future__ import annotations

import signal
import socket
from dataclasses import replace
from multiprocessing.connection import Client

import numpy as np
import pytest

pytest.importorskip("torch")

import netweave
from netweave.api import starting
from netweave.api.starting import _deeply, _send, _told, pickle
from netweave.errors import RunError, UsageError
from netweave.formats.mxnet.symbol.shapes import to_graph
from netweave.training import Ended, Monitor, Note, Updated, ValuesSeen
from tests.training.parallel import nets

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
    job = replace(job, notes=(lambda: None,))
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


def test_events_are_passed_on_after_a_rank_that_died_while_it_connected():
    """Its successor must not wait for an answer that nobody gives, nor the end of the run."""
    seen = []
    with _told(seen.append) as (address, key):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        with socket.socket(family) as dying:
            dying.connect(address)
        with Client(address, authkey=key) as connection:
            _send(connection, Note("here"))
    assert seen == [Note("here")]


def test_an_event_that_cannot_be_read_is_an_error_of_the_run():
    seen = []

    def run():
        with _told(seen.append) as (address, key), Client(address, authkey=key) as connection:
            connection.send_bytes(b"cnowhere\nNothing\n.")
            _send(connection, Note("dropped"))

    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        run()
    assert not seen


@pytest.mark.multi
@pytest.mark.slow
def test_tensors_that_a_monitor_returns_come_back_from_the_ranks(job):
    """A function of MXNet's monitors returns an array."""
    import torch

    seen = []
    data = {"train": {key: array.astype(np.float32) for key, array in nets.records().items()}}
    monitor = Monitor(5, stat_func=torch.linalg.vector_norm, pattern=".*/0")
    netweave.train(job, data=data, devices="cpu:2", seed=4, monitor=monitor, watch=seen.append)
    values = [event.values for event in seen if isinstance(event, ValuesSeen)]
    assert len(values) == 3
    assert all(float(value) > 0 for one in values for value in one.values())


@pytest.mark.parametrize(
    ("number", "kind"),
    [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit), (signal.SIGKILL, RunError)],
)
def test_ranks_that_were_ended_from_outside_leave_no_net(job, monkeypatch, number, kind):
    """The launcher gives the shell's status for a signal, and raises nothing."""
    monkeypatch.setattr(starting, "launch", lambda *args, **kwargs: 128 + number)
    with pytest.raises(kind):
        netweave.train(job, devices="cpu:2", seed=4)


def test_what_ranks_cannot_import_is_an_error_that_says_so(tmp_path):
    (tmp_path / starting.ORDER).write_bytes(b"c__main__\nno_such_function\n.")
    with pytest.raises(UsageError, match=r"cannot import .*no_such_function.*define it in a module"):
        starting.main(tmp_path)
