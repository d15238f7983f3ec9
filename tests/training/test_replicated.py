"""Minerva's loop over devices: gradients summed on their owners, lazily, and side by side."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import netweave  # noqa: E402 - after the check for torch
from netweave.api.training import load_job  # noqa: E402
from netweave.errors import RunError, UsageError  # noqa: E402
from netweave.runtime.backends.torch import TorchNet  # noqa: E402
from netweave.training.net_passes import NetPasses, objective_of  # noqa: E402
from netweave.training.replicated import ReplicatedNet  # noqa: E402
from tests.training.parallel import nets  # noqa: E402

TIMEOUT_S = 30


@pytest.fixture(autouse=True)
def one_thread():
    """Compute with one thread: with more, a sum has as many parts as its own thread may start others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def job(tmp_path):
    return load_job(nets.write(tmp_path, "pooled", steps=1))


def parts_of(step, sizes=(4, 3, 3)):
    """Return the parts of a batch, one for each device."""
    data = {key: np.roll(array, -7 * step, axis=0) for key, array in nets.records().items()}
    bounds = np.cumsum((0, *sizes))
    return [
        {key: array[start:stop].astype(np.float32) for key, array in data.items()}
        for start, stop in itertools.pairwise(bounds)
    ]


def devices(count):
    return [netweave.cpu(number) for number in range(count)]


def loop(net, parts):
    for device, part in zip(net.contexts, parts, strict=True):
        with netweave.device(device):
            net.forward(**part)
            net.backward()


def alone(job, values):
    """Return a plain net with some arrays."""
    phase = job.phases["train"]
    net = TorchNet(phase.graph, taps=list(phase.losses)).train()
    for key, value in values.items():
        net.params[key] = value
    return net


def gradients_of(net, job, part):
    net.zero_grad()
    tensors = {key: torch.from_numpy(array) for key, array in part.items()}
    objective_of(net(**tensors), job.phases["train"].losses).backward()
    return {key: tensor.detach().clone() for key, tensor in net.grads.items()}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_are_the_sums_of_those_of_the_parts_bit_for_bit(job, count):
    """torch's own autograd on each part, added in the order of the loop."""
    with netweave.replicate(job, devices(count), seed=3) as net:
        plain = alone(job, {key: value.detach().clone() for key, value in net.params.items()})
        parts = parts_of(0)[:count]
        loop(net, parts)
        expected = {key: torch.zeros_like(tensor) for key, tensor in plain.params.items()}
        for part in parts:
            for key, gradient in gradients_of(plain, job, part).items():
                expected[key] += gradient
        assert set(net.grads) == set(expected)
        for key, gradient in net.grads.items():
            assert torch.equal(gradient, expected[key]), key
        net.zero_grad()
        assert not any(float(gradient.abs().sum()) for gradient in net.grads.values())


def test_layers_have_owners_by_minervas_rule(job):
    """Layer i of L on device floor(i n / L): three layers of two arrays each, on two devices."""
    with netweave.replicate(job, devices(2), seed=3) as net:
        owners = {key: net.owner(key).index for key in net.grads}
    assert owners == {"conv1/0": 0, "conv1/1": 0, "ip1/0": 0, "ip1/1": 0, "out/0": 1, "out/1": 1}


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_loop_of_several_steps_needs_no_care_for_dependencies(job, by_hand):
    """Against one plain net: what owners or the user change reaches all devices."""
    rate = 0.25
    settings = {} if by_hand else {"optimizer": "sgd", "optimizer_params": {"learning_rate": rate, "wd": 0.0}}
    with netweave.replicate(job, devices(3), seed=3, **settings) as net:
        plain = alone(job, {key: value.detach().clone() for key, value in net.params.items()})
        for step in range(4):
            loop(net, parts_of(step))
            if by_hand:
                with torch.no_grad():
                    for key in net.grads:
                        net.params[key] -= rate * net.grads[key]
                net.zero_grad()
            else:
                net.update()
            sums = {key: torch.zeros_like(tensor) for key, tensor in plain.params.items()}
            for part in parts_of(step):
                for key, gradient in gradients_of(plain, job, part).items():
                    sums[key] += gradient
            with torch.no_grad():
                for key in sums:
                    plain.params[key] -= rate * sums[key]
        for key, value in net.params.items():
            np.testing.assert_allclose(value.detach(), plain.params[key].detach(), rtol=0, atol=1e-6)


def test_masks_are_those_of_the_whole_batch(tmp_path):
    """Dropout draws by the number of the sample in the batch, whichever device has it."""
    job = load_job(nets.write(tmp_path, "resnet", steps=1))
    graph = job.phases["train"].graph
    dropped = next(node.outputs[0].name for node in graph.nodes if node.op_type == "Dropout")
    phase = replace(job.phases["train"], losses={**job.phases["train"].losses, dropped: 0.0})
    job = replace(job, phases={"train": phase})
    found = []
    for sizes in ((10,), (4, 3, 3)):
        with netweave.replicate(job, devices(len(sizes)), seed=3) as net:
            outputs = []
            for device, part in zip(net.contexts, parts_of(0, sizes), strict=True):
                with netweave.device(device):
                    outputs.append(net.forward(**part))
            found.append(torch.cat([one.result()[dropped] == 0 for one in outputs]))
    assert torch.equal(*found)
    assert 0.1 < float(found[0].float().mean()) < 0.6


def boxes_of(path):
    """Return begin and end of each task by name, from a trace."""
    events = [event for event in json.loads(path.read_text()) if event["ph"] == "X"]
    return {event["name"]: (event["ts"], event["ts"] + event["dur"], event["cat"]) for event in events}


def test_devices_and_sums_overlap_in_the_trace(tmp_path, job, monkeypatch):
    """Each waits for what must run beside it: were one of them to wait for the other, the test would fail.

    The first device's backward of the first layer is held until the second device computes and until the
    gradient of the last layer has been added to the sum.
    """
    computing, summed = threading.Event(), threading.Event()
    forward, backward, gradient = NetPasses._forward, NetPasses._backward, ReplicatedNet._gradient

    def noted_forward(passes, *arguments):
        if passes.where.number == 1:
            computing.set()
        return forward(passes, *arguments)

    def held_backward(passes, part, stage, *arguments):
        if passes.where.number == 0 and stage.index == 0:
            assert computing.wait(TIMEOUT_S), "the second device waits for the first"
            assert summed.wait(TIMEOUT_S), "the sum of the last layer waits for the first layer's backward"
        backward(passes, part, stage, *arguments)

    def noted_gradient(net, device, number):
        if device == 0 and net._keys[number] == "out/0":
            summed.set()
        return gradient(net, device, number)

    monkeypatch.setattr(NetPasses, "_forward", noted_forward)
    monkeypatch.setattr(NetPasses, "_backward", held_backward)
    monkeypatch.setattr(ReplicatedNet, "_gradient", noted_gradient)
    trace = tmp_path / "trace.json"
    with netweave.replicate(job, devices(2), seed=3, num_stages=3, trace=trace) as net:
        loop(net, parts_of(0)[:2])
    boxes = boxes_of(trace)
    first = boxes["backward 0, stage 0 on cpu:0"]
    second = boxes["forward 0, stage 0 on cpu:1"]
    total = boxes["sum of gradient 0 of out/0 from cpu:0"]
    assert {first[2], second[2], total[2]} == {"compute", "compute 1", "store"}
    assert second[0] < first[1]
    assert total[0] < first[1]


def test_a_device_fetches_what_its_owner_changed_before_it_reads_it_and_no_more(tmp_path, job):
    trace = tmp_path / "trace.json"
    with netweave.replicate(job, devices(2), seed=3, optimizer="sgd", num_stages=3, trace=trace) as net:
        for step in range(2):
            loop(net, parts_of(step)[:2])
            net.update()
        with netweave.device("cpu:0"):
            net.forward(**parts_of(2)[0])
    boxes = boxes_of(trace)
    fetched = sorted(name for name in boxes if name.startswith("fetch"))
    assert fetched == [
        *(f"fetch 1 of {key} from cpu:0 to cpu:1" for key in ("conv1/0", "conv1/1", "ip1/0", "ip1/1")),
        *(f"fetch 1 of {key} from cpu:1 to cpu:0" for key in ("out/0", "out/1")),
        *(f"fetch 2 of {key} from cpu:1 to cpu:0" for key in ("out/0", "out/1")),
    ]
    for name in fetched:
        step, key = int(name.split()[1]), name.split()[3]
        owner, reader = name.split()[5], name.split()[7]
        assert boxes[f"update {step - 1} of {key} on {owner}"][1] <= boxes[name][0]
        stage = ("conv1", "ip1", "out").index(key.partition("/")[0])
        assert boxes[name][1] <= boxes[f"forward {step}, stage {stage} on {reader}"][0]


def test_calls_return_before_anything_is_computed(job, monkeypatch):
    go = threading.Event()
    forward = NetPasses._forward

    def held(*arguments):
        assert go.wait(TIMEOUT_S)
        return forward(*arguments)

    monkeypatch.setattr(NetPasses, "_forward", held)
    with netweave.replicate(job, devices(2), seed=3, optimizer="sgd") as net:
        part = parts_of(0)[0]
        loss = net.forward(**part)
        net.backward()
        net.update()
        assert not loss.done
        for array in part.values():
            array[:] = np.nan  # the caller's arrays are the caller's again
        go.set()
        assert np.isfinite(float(loss.result()["loss"]))


def test_a_graph_needs_its_losses(job):
    graph = job.phases["train"].graph
    with pytest.raises(UsageError, match="name the losses of the net; its outputs are: loss"):
        netweave.replicate(graph, devices(2))
    with netweave.replicate(graph, devices(2), losses=["loss"], seed=1) as net:
        loop(net, parts_of(0)[:2])
        assert float(net.grads["out/0"].abs().sum()) > 0


def test_wrong_calls_are_refused(job):
    with netweave.replicate(job, devices(2), seed=3) as net:
        with pytest.raises(UsageError, match="backward on cpu:0 without a forward"):
            net.backward()
        with pytest.raises(UsageError, match="the net has no optimizer"):
            net.update()
        with netweave.device("cpu:5"), pytest.raises(UsageError, match="the net is on cpu:0, cpu:1, not on"):
            net.forward()
        with pytest.raises(UsageError, match="'disk' is no device"), netweave.device("disk"):
            pass
        net.forward(data=np.zeros((2, 9, 6, 6), np.float32), label=np.zeros(2, np.float32))
        with pytest.raises(RunError, match="conv1"):
            net.wait()


def test_the_jobs_seed_is_that_of_its_first_arrays(job):
    def first_of(seed, of_job):
        with netweave.replicate(replace(job, seed=of_job), devices(1), seed=seed) as net:
            return net.params["ip1/0"].clone()

    assert torch.equal(first_of(None, 5), first_of(5, None))
    assert not torch.equal(first_of(None, 5), first_of(6, 5))
