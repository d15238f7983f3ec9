"""Ports whose weights are the first values of their own code: they are compared by structure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import netweave
from netweave.comparison import Verdict
from netweave.comparison.assessment import COPIED
from netweave.graph import with_arrays
from tests.comparison.nets import Form, arrays, build


def fresh(form: Form, seed: int = 3):
    """A port as its code makes it: filters that are drawn anew, a BatchNorm that does nothing."""
    rng = np.random.default_rng(seed)
    values = {name: rng.standard_normal(x.shape, np.float32) for name, x in arrays().items() if x.ndim > 1}
    values |= {name: np.full(8, float(name in {"gamma", "var"}), np.float32) for name in ("gamma", "var")}
    values |= {name: np.zeros(8, np.float32) for name in ("beta", "mean")}
    return first(with_arrays(build(form), {form.prefix + name: x for name, x in values.items()}))


def first(graph):
    graph.parameters = {key: replace(p, initial=True) for key, p in graph.parameters.items()}
    return graph


def test_a_port_with_first_values_is_compared_by_structure():
    net = build()
    found = netweave.compare(net, fresh(Form(prefix="b")))
    assert (found.verdict, found.exit_status) == (Verdict.STRUCTURE, 4)
    assert found.same_structure
    assert not found.equal
    assert found.sentence == (
        "same structure, weights not compared: with weights copied from one net to the other, "
        "the output is identical"
    )
    assert "B came without weights: 7 arrays were copied from A to B" in found.notes[0]
    wrong = netweave.compare(net, fresh(Form(prefix="b", eps=0.1)))
    assert [finding.mismatch for finding in wrong.findings] == ["epsilon"]
    turned = netweave.compare(fresh(Form(file="a.net")), build(Form(rounding="floor")))
    assert [finding.mismatch for finding in turned.findings] == ["pool-rounding"]


def test_two_nets_with_first_values_are_compared_with_drawn_ones():
    """With the first values themselves, the BatchNorm would show nothing."""
    found = netweave.compare(fresh(Form(file="a.net"), 4), fresh(Form(prefix="b", eps=0.1)))
    assert [finding.mismatch for finding in found.findings] == ["epsilon"]
    assert "A and B came without weights" in found.notes[0]


def test_first_values_that_are_the_other_net_s_weights_are_weights():
    """Code may load its weights itself."""
    found = netweave.compare(build(), first(build(Form(changed={"fc": ((3, 5), 0.5)}))))
    assert not found.sentence.startswith(COPIED)
    assert [finding.mismatch for finding in found.findings] == ["weights"]


ROLES = {"gamma": "gamma", "beta": "beta", "mean": "mean", "var": "variance"}


def as_saved(graph):
    """A graph as a file gives it, which says what its arrays are, and not whether anybody trained them."""
    graph.parameters = {
        key: replace(p, initial=False, role=ROLES.get(key.removeprefix("b"), "weight"))
        for key, p in graph.parameters.items()
    }
    return graph


def test_a_file_that_nobody_trained_is_compared_by_structure():
    """A model that Keras saves as soon as it is made holds values for all arrays, and they say nothing."""
    saved = as_saved(fresh(Form(prefix="b")))
    found = netweave.compare(build(), saved)
    assert found.verdict is Verdict.STRUCTURE
    assert found.notes[0] == "B was never trained: its biases and normalisations have their first values"
    wrong = netweave.compare(build(), as_saved(fresh(Form(prefix="b", eps=0.1))))
    assert [finding.mismatch for finding in wrong.findings] == ["epsilon"]


def test_one_value_that_training_moved_makes_weights_of_all():
    moved = as_saved(fresh(Form(prefix="b")))
    found = netweave.compare(build(), with_arrays(moved, {"bmean": np.full(8, 1e-4, np.float32)}))
    assert found.verdict is Verdict.DIFFERENT
    assert "weights" in {finding.mismatch for finding in found.findings}
