"""Nets at other sizes are copies: what is compared at one size is not changed by comparing at another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from netweave.comparison.align.alignment import Alignment
from netweave.comparison.execution import memory_budget
from netweave.comparison.execution.memory_budget import has_rules, has_scaffolding, has_sizes, resize, resized
from netweave.comparison.execution.sizes import Resizer
from netweave.comparison.metric import comparable
from netweave.comparison.prepare import Side
from netweave.comparison.result.comparison import Evidence
from netweave.graph import GraphBuilder, known_shape
from tests.graph.passes.random_nets import nets


def pooled(*, rule: bool):
    """A convolution and a pooling, of ONNX's own rounding or of Caffe's, which depends on the size."""
    builder = GraphBuilder("net", format="onnx", files=("a.net",))
    x = builder.input("data", (1, 3, 12, 12))
    x = builder.add("Conv", [x, builder.constant(np.ones((4, 3, 3, 3), np.float32))])
    settings = {"kernel_shape": [2, 2], "strides": [2, 2]}
    if rule:
        x = builder.add("MaxPool", [x], settings | {"rounding": "caffe"}, domain="netweave")
    else:
        x = builder.add("MaxPool", [x], settings)
    return builder.finish([x])


def state(graph):
    shapes = {name: known_shape(value) for name, value in graph.values().items()}
    return shapes, [(node.domain, node.op_type, sorted(node.attributes)) for node in graph.nodes]


@pytest.mark.parametrize("rule", [False, True])
def test_the_argument_stays_as_it_is(rule):
    graph = pooled(rule=rule)
    before = state(graph)
    other = memory_budget.resized(graph, {"data": (2, 3, 17, 24)})
    assert other is not None
    assert other is not graph
    assert known_shape(other.inputs[0])[1:] == (3, 17, 24)
    assert known_shape(other.outputs[0])[2:] == ((8, 11) if rule else (7, 11))
    assert state(graph) == before


def test_sizes_that_do_not_fit_change_nothing():
    graph = pooled(rule=False)
    before = state(graph)
    assert memory_budget.resized(graph, {"data": (1, 5, 12, 12)}) is None
    assert state(graph) == before


def test_a_net_is_resized_once_for_each_size(monkeypatch):
    calls = []
    resized = memory_budget.resized
    monkeypatch.setattr(
        memory_budget, "resized", lambda graph, sizes: calls.append(sizes) or resized(graph, sizes)
    )
    side, resizer = Side.of("A", pooled(rule=False), comparable), Resizer()
    first = resizer.resized(side, {"data": (1, 3, 12, 12)})
    assert resizer.resized(side, {"data": (1, 3, 12, 12)}) is first
    assert resizer.resized(side, {"data": (1, 3, 20, 12)}) is not first
    assert len(calls) == 2


def test_every_alignment_has_pairs_and_votes_of_its_own():
    a, b = Side.of("A", pooled(rule=False), comparable), Side.of("B", pooled(rule=False), comparable)
    first = Alignment(a, b, orientation="height and width swapped")
    first.pair_nodes(first.a.signals.nodes[0], first.b.signals.nodes[0], Evidence.WEIGHTS)
    second = Alignment(a, b)
    assert second.a.partners == {}
    assert (first.hints(), second.hints()) == (((0, 1, 3, 2),), ())


@settings(max_examples=40, deadline=None)
@given(case=nets(), size=st.sampled_from([0, 1]))
def test_a_net_at_its_sizes_need_not_be_resized(case, size):
    """What is said to be at some sizes has the shapes of a copy that was brought to them."""
    shape = [1, *case.x.shape[1:-1], case.x.shape[-1] + size]
    if has_sizes(case.graph, {"data": shape}):
        assert resized(case.graph, {"data": shape}) is case.graph
        copy = case.graph.clone()
        assert resize(copy, {"data": shape})
        shapes = [[(v.name, v.shape) for v in node.outputs] for node in copy.nodes]
        assert shapes == [[(v.name, v.shape) for v in node.outputs] for node in case.graph.nodes]
    else:
        assert (
            size
            or any(node.op_type == "Slice" for node in case.graph.nodes)
            or (has_rules(case.graph) or has_scaffolding(case.graph))
        )
