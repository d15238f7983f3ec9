"""A plan says what torch's allocator then gives out."""

import pytest
import torch
from hypothesis import given, settings

from netweave.backends.torch import TorchNet
from netweave.backends.torch.allocations import record_allocations
from netweave.memory_plan import prepare, share, timeline
from tests.memory_plan.drawn import SIZE, STEPS, build

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


def graph_of(steps):
    return build(steps, batch=4)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS)
@pytest.mark.parametrize("training", [False, True])
def test_the_plan_is_what_the_allocator_gives_out(training, steps):
    graph = graph_of(steps)
    plan = timeline(prepare(graph, batch=4, training=training))
    peak = measured(graph, training=training).peak
    assert plan.peak == pytest.approx(peak, rel=0.05, abs=SMALL)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS)
@pytest.mark.parametrize("training", [False, True])
def test_in_place_and_sharing_only_ever_save(training, steps):
    graph = graph_of(steps)
    plain = timeline(prepare(graph, batch=4, training=training, in_place=False))
    shared = timeline(prepare(graph, batch=4, training=training))
    assert shared.peak <= share(shared.buffers).num_bytes
    assert shared.total <= plain.total
    assert shared.peak <= plain.peak
