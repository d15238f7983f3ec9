"""What holds for every pass: outputs stay, the given graph stays, the tables stay true."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netweave.graph import layer_keys
from netweave.graph.passes import (
    absorb,
    chain,
    explicit,
    extract,
    fold,
    join_branches,
    prune,
    remove_concats,
    specialise,
    sum_of_parts,
    to_inference,
)
from netweave.runtime.backends import prepare
from tests.graph.passes.random_nets import nets

everything = chain(to_inference, join_branches, fold, absorb, remove_concats, sum_of_parts, explicit, prune)

PASSES = {
    "absorb": absorb,
    "everything": everything,
    "explicit": explicit,
    "fold": fold,
    "join_branches": join_branches,
    "prune": prune,
    "remove_concats": remove_concats,
    "specialise": lambda graph: specialise(graph, {"data": (2, *[None] * 3)}),
    "sum_of_parts": sum_of_parts,
    "to_inference": to_inference,
}


def assert_same(found, expected, *, tolerance=2e-5):
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert found[name].shape == array.shape
        scale = max(1.0, float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))))
        np.testing.assert_allclose(found[name] / scale, array / scale, rtol=tolerance, atol=tolerance)


def assert_tables_true(graph, original):
    values = graph.values()
    assert len(values) == sum(1 for _ in values.values())
    assert all(target in values and name not in values for name, target in graph.aliases.items())
    assert set(graph.layers) == set(original.layers)
    assert all(key in graph.layers for node in graph.nodes for key in layer_keys(node))
    assert all(value.producer() is None or value.producer().graph is not None for value in values.values())


@pytest.mark.parametrize("name", sorted(PASSES))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(net=nets())
def test_outputs_are_the_same_before_and_after(name, net):
    graph, x = net.graph, net.x
    taps = list(graph.values())
    before = prepare(graph, taps=taps).run({"data": x})
    changed = PASSES[name](graph)
    assert_tables_true(changed, graph)
    expected = {output.name: before[output.name] for output in graph.outputs}
    assert_same(prepare(changed).run({"data": x}), expected)
    again = prepare(graph, taps=taps).run({"data": x})
    for tap in taps:
        np.testing.assert_array_equal(again[tap], before[tap])


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(net=nets())
def test_every_value_of_the_inference_form_is_found_by_its_old_name(net):
    graph, x = net.graph, net.x
    taps = [value.name for node in graph.nodes for value in node.outputs]
    form = to_inference(graph)
    kept = [name for name in taps if name in form.values() or name in form.aliases]
    assert all(node.op_type != "Dropout" for node in form.nodes)
    expected = prepare(graph, taps=kept).run({"data": x})
    assert_same(prepare(form, taps=kept).run({"data": x}), expected, tolerance=0)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(net=nets())
def test_what_is_left_are_the_values_that_they_were(net):
    graph, x = net.graph, net.x
    changed = everything(graph)
    names = [v.name for node in changed.nodes for v in node.outputs if v.name in graph.values()]
    assert_same(prepare(changed, taps=names).run({"data": x}), prepare(graph, taps=names).run({"data": x}))


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(net=nets(), data=st.data())
def test_any_part_gives_what_the_whole_gave(net, data):
    """Between values drawn anywhere; what else the part needs is among its inputs."""
    graph = net.graph
    names = [value.name for node in graph.nodes for value in node.outputs]
    output = data.draw(st.sampled_from(names))
    cut = data.draw(st.sets(st.sampled_from(["data", *names]), max_size=3)) | {"data"}
    whole = prepare(graph, taps=[output, *cut]).run({"data": net.x})
    part = extract(graph, inputs=sorted(cut), outputs=[output])
    assert_tables_true(part, part)
    found = prepare(part).run({name: whole[name] for name in cut})
    np.testing.assert_array_equal(found[output], whole[output])
