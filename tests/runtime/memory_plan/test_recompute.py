"""Computing again changes no bit, and needs what the plan says."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.zoo import NETS
from netweave.runtime.backends.torch import TorchNet, normalisation, recomputation
from netweave.runtime.backends.torch.memory import record_allocations
from netweave.runtime.memory_plan import cheapest, prepare, square_root, timeline
from netweave.runtime.memory_plan.recompute import candidates
from tests.runtime.memory_plan.drawn import SIZE, STEPS, build
from tests.runtime.memory_plan.test_measured import SMALL, Head
from tests.time_limits import many


@pytest.fixture(autouse=True)
def _several_parts(monkeypatch):
    """Have what is normalised again come in parts, although the nets are small."""
    monkeypatch.setattr(normalisation, "PART", 256)


def step(net, data):
    outputs = net(data=data)
    Head.apply(outputs["y"]).backward()
    return outputs["y"].detach().clone()


def state(net):
    arrays = {key: value.detach().clone() for key, value in net.params.items()}
    return arrays | {f"gradient of {key}": value.clone() for key, value in net.grads.items()}


def data_of(net):
    return net.store.placed(
        torch.from_numpy(np.random.default_rng(1).normal(size=(4, 3, SIZE, SIZE))).float()
    )


@pytest.mark.slow
@settings(
    max_examples=many(80, in_ci=12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(STEPS, st.data())
def test_a_step_that_computes_again_ends_in_the_same_bits(steps, data):
    torch.set_num_threads(1)
    graph = build(steps)
    plan = prepare(graph, batch=4, training=True)
    able = sorted(value.name for value in candidates(plan))
    again = data.draw(st.sets(st.sampled_from(able))) if able else set()
    plain, planned = TorchNet(graph).train(), TorchNet(graph).train()
    planned.recompute(plan, again)
    for _ in range(2):
        assert torch.equal(step(plain, data_of(plain)), step(planned, data_of(planned)))
        for (name, one), other in zip(state(plain).items(), state(planned).values(), strict=True):
            assert torch.equal(one, other), name


@pytest.mark.slow
@settings(
    max_examples=many(80, in_ci=12),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(STEPS, st.sampled_from(["square root", 0.8, 0.6, 0.0]))
def test_the_plan_is_what_the_allocator_gives_out(steps, wanted):
    torch.set_num_threads(1)
    graph = build(steps)
    plan = prepare(graph, batch=4, training=True)
    whole = timeline(plan).peak
    found = square_root(plan) if wanted == "square root" else cheapest(plan, int(wanted * whole))
    net = TorchNet(graph).train()
    net.recompute(found.net, found.names)
    data = data_of(net)
    peak = record_allocations(lambda: step(net, data)).peak
    assert found.peak == pytest.approx(peak, rel=0.05, abs=SMALL)
    if wanted != "square root":
        assert found.peak <= whole


@pytest.mark.slow
@pytest.mark.parametrize(("name", "share", "masks"), [("resnet50", 0.73, False), ("vgg16", 0.89, True)])
def test_convolutions_are_masked_only_where_that_saves_work(name, share, masks):
    """The first layers of VGG-16 are most of its memory; ResNet-50 has it everywhere."""
    graph = NETS[name].build().graph(data=(8, *NETS[name].image))
    plan = prepare(graph, batch=8, training=True)
    assert plan.masked
    limit = int(share * timeline(plan).peak)
    found = cheapest(plan, limit)
    assert found.peak <= limit
    assert bool(found.net.masked) == masks


def test_a_batch_is_measured_once(monkeypatch):
    """What is normalised again takes the statistics of the first time, half of what it costs."""
    measured, again = [], []
    measure = torch.native_batch_norm
    monkeypatch.setattr(torch, "native_batch_norm", lambda *given: measured.append(given) or measure(*given))
    run = recomputation.normalised_again
    monkeypatch.setattr(recomputation, "normalised_again", lambda *given: again.append(given) or run(*given))
    graph = build([("conv", 0), ("norm", 0), ("relu", 0), ("conv", 0), ("norm", 0), ("relu", 0)], batch=4)
    plan = prepare(graph, batch=4, training=True)
    net = TorchNet(graph).train()
    net.recompute(plan, {value.name for value in candidates(plan)})
    step(net, data_of(net))
    assert len(measured) == 2
    assert len(again) == 2
