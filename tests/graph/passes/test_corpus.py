"""Passes over the real nets: the same outputs, or the predictions behind their losses."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.api import load
from netweave.errors import NetweaveError
from netweave.graph import DOMAIN
from netweave.graph.passes import absorb, chain, explicit, fold, prune, to_inference
from netweave.runtime.backends import prepare

everything = chain(to_inference, fold, absorb, explicit, prune)

SMALL, LARGE = 500_000, 14_000_000
"""Nets up to the first number of parameters are run without being asked for; beyond the second never."""


@pytest.fixture(scope="module")
def real_nets(corpus):
    """Paths and graphs of all nets that are read and whose input sizes are declared."""
    found = []
    for path in sorted([*corpus.rglob("*.prototxt"), *corpus.rglob("*symbol*.json")]):
        try:
            graph = load(path)
        except NetweaveError:
            continue  # the readers' tests say which and why
        if all(shape and None not in shape[1:] for shape in graph.declared.values()):
            found.append((path, graph))
    return found


def drawn_inputs(graph):
    rng = np.random.default_rng(0)
    found = {}
    for value in graph.inputs:
        sizes = [2, *graph.declared[value.name][1:]]
        images = len(sizes) == 4
        found[value.name] = rng.standard_normal(sizes).astype(np.float32) if images else np.zeros(sizes)
    return found


def check(graph):
    form = everything(graph)
    assert not any(node.domain == DOMAIN and node.op_type.endswith(("Loss", "Output")) for node in form.nodes)
    assert not any(node.op_type in {"Dropout", "Accuracy"} for node in form.nodes)
    inputs = drawn_inputs(graph)
    expected = prepare(graph).run(inputs)
    kept = {value.name for value in form.inputs}
    found = prepare(form).run({name: array for name, array in inputs.items() if name in kept})
    judged = [value.name for value in graph.outputs if value.name not in found]
    assert found
    assert all(graph.values()[name].producer().domain == DOMAIN for name in judged)
    for name in set(found) & set(expected):
        scale = max(np.sqrt(np.mean(np.square(expected[name]))), 1e-20)
        np.testing.assert_allclose(found[name] / scale, expected[name] / scale, rtol=1e-4, atol=1e-4)
    return len(judged)


def check_all(nets):
    """Check nets and return how many there were, and how many of them with losses or metrics."""
    judged = []
    for path, graph in nets:
        try:
            judged.append(check(graph) > 0)
        except AssertionError as error:
            raise AssertionError(f"{path}: {error}") from error
    return len(judged), sum(judged)


def test_small_nets_of_the_corpus(real_nets):
    checked, _ = check_all(net for net in real_nets if net[1].num_parameters <= SMALL)
    assert checked >= 15


@pytest.mark.slow
def test_large_nets_of_the_corpus(real_nets):
    checked, judged = check_all(net for net in real_nets if SMALL < net[1].num_parameters <= LARGE)
    assert checked >= 5
    assert judged >= 1
