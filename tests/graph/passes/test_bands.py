"""A net over bands of its image gives the numbers of the whole, whatever its paddings and roundings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from netweave.errors import UsageError
from netweave.graph import GraphBuilder, Parameter
from netweave.graph.graph import needed_nodes
from netweave.graph.passes.projections import NotTileableError, is_tileable, tile
from netweave.runtime.backends import prepare
from netweave.runtime.memory_plan import prepare as plan_net
from netweave.runtime.memory_plan import tile_to_fit, timeline
from tests.graph.passes.random_nets import Case, Net, arithmetic, conv, normalisation, pool, same_pool

LAYERS = [conv, pool, same_pool, normalisation, arithmetic]


@st.composite
def cases(draw):
    """Chains of windows, with sums over branches of one size."""
    net = Net(draw)
    for _ in range(draw(st.integers(1, 5))):
        draw(st.sampled_from(LAYERS))(net)
        if draw(st.booleans()):
            net.add("Relu", [net.values[-1]])
        alike = [value for value in net.values[1:-1] if value.shape == net.values[-1].shape]
        if alike and draw(st.booleans()):
            net.add(draw(st.sampled_from(["Add", "Concat"])), [net.values[-1], alike[0]], {})
    return net


def finished(net):
    graph = net.builder.finish([net.values[-1]])
    sizes = [dim if isinstance(dim, int) else 2 for dim in graph.inputs[0].shape]
    return Case(graph, net.rng.standard_normal(sizes).astype(np.float32))


def needed_by_output(graph):
    needed = needed_nodes(graph.outputs)
    return [node for node in graph.nodes if node in needed]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases(), st.integers(2, 5))
def test_bands_give_what_the_whole_gives(net, num_bands):
    case = finished(net)
    nodes = needed_by_output(case.graph)
    try:
        tiled = tile(case.graph, nodes, num_bands)
    except NotTileableError:
        assume(False)
    (whole,) = prepare(case.graph, backend="torch").run({"data": case.x}).values()
    (banded,) = prepare(tiled, backend="torch").run({"data": case.x}).values()
    np.testing.assert_allclose(banded, whole, rtol=1e-6, atol=1e-6)
    (other,) = prepare(tiled).run({"data": case.x}).values()
    np.testing.assert_allclose(other, whole, rtol=1e-4, atol=1e-4)


def alternating(size=32):
    """Convolutions and a rounding-up pooling, then a layer that looks at the whole image."""
    builder, draw = GraphBuilder("tall", format="onnx"), np.random.default_rng(0)

    def weight(name, *shape):
        return builder.parameter(Parameter(name, shape), draw.normal(size=shape).astype(np.float32) / 8)

    x = builder.input("data", (1, 3, size, size))
    for name, width, channels in (("a", 16, 3), ("b", 16, 16)):
        x = builder.add("Conv", [x, weight(name, width, channels, 3, 3)], {"pads": [1] * 4})
        x = builder.add("Relu", [x])
    windows = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    x = builder.add("MaxPool", [x], windows)
    return builder.finish([builder.add("GlobalAveragePool", [x], outputs="y")])


def test_a_net_is_tiled_until_it_fits():
    pytest.importorskip("torch")
    graph = alternating()
    whole = timeline(plan_net(graph, batch=1)).peak
    tiled = tile_to_fit(graph, whole * 6 // 10)
    assert timeline(plan_net(tiled, batch=1)).peak <= whole * 6 // 10
    assert any(node.op_type == "Concat" for node in tiled.nodes)
    data = {"data": np.random.default_rng(1).normal(size=(1, 3, 32, 32)).astype(np.float32)}
    one, other = (prepare(net, backend="torch").run(data)["y"] for net in (graph, tiled))
    np.testing.assert_array_equal(one, other)


def rectified():
    """A normalisation with its scale, and a max pooling with its Relu, each of which runs as one node."""
    builder, draw = GraphBuilder("rectified", format="onnx"), np.random.default_rng(0)

    def array(name, *shape):
        return builder.parameter(Parameter(name, shape), draw.random(shape).astype(np.float32))

    x = builder.input("data", (1, 3, 64, 64))
    x = builder.add("Conv", [x, array("w", 16, 3, 3, 3)], {"kernel_shape": [3, 3], "pads": [1] * 4})
    one, zero = (builder.constant(np.full(16, value, np.float32)) for value in (1, 0))
    x = builder.add("BatchNormalization", [x, one, zero, array("mean", 16), array("var", 16)])
    x = builder.add("Mul", [x, array("scale", 1, 16, 1, 1)])
    x = builder.add("Relu", [builder.add("Add", [x, array("shift", 1, 16, 1, 1)])])
    x = builder.add("MaxPool", [x], {"kernel_shape": [2, 2], "strides": [2, 2]})
    return builder.finish([builder.add("GlobalAveragePool", [x], outputs="y")])


def test_nodes_that_run_as_one_are_tiled_together():
    pytest.importorskip("torch")
    graph = rectified()
    plan = plan_net(graph, batch=1)
    assert sorted(len(plan.parts_of(node)) for node in plan.nodes) == [1, 1, 2, 3]
    whole = timeline(plan).peak
    tiled = tile_to_fit(graph, whole * 6 // 10)
    assert timeline(plan_net(tiled, batch=1)).peak <= whole * 6 // 10
    data = {"data": np.random.default_rng(1).normal(size=(1, 3, 64, 64)).astype(np.float32)}
    one, other = (prepare(net, backend="torch").run(data)["y"] for net in (graph, tiled))
    np.testing.assert_allclose(one, other, rtol=1e-6)


def test_a_net_whose_last_layers_are_its_largest_is_tiled():
    builder, draw = GraphBuilder("wide", format="onnx"), np.random.default_rng(0)
    x = builder.input("data", (1, 3, 64, 64))
    for name, (count, channels) in {"a": (32, 3), "b": (16, 32)}.items():
        filters = draw.normal(size=(count, channels, 3, 3)).astype(np.float32)
        w = builder.parameter(Parameter(f"{name}.w", filters.shape), filters)
        x = builder.add("Conv", [x, w], {"kernel_shape": [3, 3], "pads": [1] * 4}, outputs=name)
    graph = builder.finish([x])
    whole = timeline(plan_net(graph, batch=1)).peak
    assert timeline(plan_net(tile_to_fit(graph, whole * 7 // 10), batch=1)).peak <= whole * 7 // 10


def test_what_no_tiling_fits_is_refused():
    with pytest.raises(UsageError, match=r"tall: a run of 1 needs .* kB at least, .* limited to 1.00 kB"):
        tile_to_fit(alternating(), 1000)


def test_a_layer_that_looks_at_the_whole_image_is_not_tiled():
    graph = alternating()
    assert [node.op_type for node in graph.nodes if not is_tileable(node)] == ["GlobalAveragePool"]
    with pytest.raises(NotTileableError):
        tile(graph, list(graph.nodes), 2)
