"""A plan says what torch's allocator then gives out."""

import gc

import pytest
import torch
from hypothesis import given, settings

from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.memory import record_allocations
from netweave.runtime.backends.torch.stages import StagePass, cut, run_backward, run_stage
from netweave.runtime.memory_plan import prepare, share, timeline
from netweave.runtime.memory_plan.recompute import Recomputation, cheapest
from tests.runtime.memory_plan.drawn import SIZE, STEPS, build
from tests.time_limits import many

SMALL = 40_000
"""Bytes that no plan is about: a kernel's scratch memory, numbers, descriptions."""


class Head(torch.autograd.Function):
    """A loss whose gradient is memory that nobody but autograd holds."""

    @staticmethod
    def forward(ctx, y):
        ctx.shape = y.shape
        return y.new_zeros(())

    @staticmethod
    def backward(ctx, above):
        return torch.empty(ctx.shape, memory_format=torch.channels_last).fill_(1)


def measured(graph, *, training):
    torch.set_num_threads(1)
    net = TorchNet(graph).train(training)
    data = net.store.placed(torch.randn(4, 3, SIZE, SIZE))

    def step():
        with torch.set_grad_enabled(training):
            outputs = net(data=data)
            if training:
                Head.apply(outputs["y"]).backward()

    return record_allocations(step)


def measured_stages(graph, *, num_stages, limit=None):
    """Return the plan of a step in stages, and what a step is given."""
    torch.set_num_threads(1)
    net = TorchNet(graph).train()
    data = net.store.placed(torch.randn(4, 3, SIZE, SIZE))
    stages = cut(net, num_stages)
    plan = prepare(graph, batch=4, training=True, stages=[stage.nodes for stage in stages])
    found = Recomputation(plan, None, timeline(plan)) if limit is None else cheapest(plan, limit)
    net.recompute(found.net, found.names)

    def step():
        passes: list[StagePass] = []
        for stage in stages:
            passes.append(run_stage(net, stage, passes[-1].outputs if passes else [data]))
            for before in passes[-2:-1]:
                before.release_outputs()
        outputs = dict(zip(net.names, passes[-1].outputs, strict=True))
        objective = Head.apply(outputs["y"])
        above = run_backward(passes.pop(), [], objective=objective)
        while passes:
            above = run_backward(passes.pop(), above)
        return outputs

    return found, record_allocations(step)


def graph_of(steps):
    return build(steps, batch=4)


@pytest.mark.slow
@settings(max_examples=many(60, in_ci=6), deadline=None)
@given(STEPS)
@pytest.mark.parametrize("training", [False, True])
def test_the_plan_is_what_the_allocator_gives_out(training, steps):
    graph = graph_of(steps)
    plan = timeline(prepare(graph, batch=4, training=training))
    peak = measured(graph, training=training).peak
    assert plan.peak == pytest.approx(peak, rel=0.05, abs=SMALL)


@pytest.mark.slow
@settings(max_examples=many(30, in_ci=3), deadline=None)
@given(STEPS)
@pytest.mark.parametrize("num_stages", [2, 4])
def test_a_step_in_stages_stays_within_its_plan(num_stages, steps):
    graph = graph_of(steps)
    for limit in (None, 0):
        found, allocations = measured_stages(graph, num_stages=num_stages, limit=limit)
        assert allocations.peak <= 1.05 * found.peak + 2 * SMALL
        # pixels that a convolution takes and their gradient are counted as if they were there together
        assert found.peak <= 1.15 * allocations.peak + 2 * SMALL


@pytest.mark.slow
@settings(max_examples=many(60, in_ci=6), deadline=None)
@given(STEPS)
@pytest.mark.parametrize("training", [False, True])
def test_in_place_and_sharing_only_ever_save(training, steps):
    graph = graph_of(steps)
    plain = timeline(prepare(graph, batch=4, training=training, in_place=False))
    shared = timeline(prepare(graph, batch=4, training=training))
    assert shared.peak <= share(shared.buffers).num_bytes
    assert shared.total <= plain.total
    assert shared.peak <= plain.peak


@pytest.mark.slow
def test_what_earlier_work_left_in_cycles_does_not_count_as_given_back():
    def leave() -> None:
        kept = [torch.zeros(1 << 18)]
        kept.append(kept)

    gc.disable()
    try:
        record_allocations(leave)
        found = record_allocations(lambda: (gc.collect(), torch.zeros(1 << 16)))
    finally:
        gc.enable()
    assert found.peak == 4 << 16
