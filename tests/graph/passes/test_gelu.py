"""GELU in the forms of exporters becomes one operator that computes what the parts do."""

from __future__ import annotations

import math

import numpy as np
import pytest

import netweave
from netweave.graph import attributes_of
from netweave.graph.passes import fuse_gelu
from tests.formats.onnx.models import load, model, node, normal, run

NUMBERS = {
    "root": np.float32(math.sqrt(2)), "inverse": np.float32(math.sqrt(0.5)), "half": np.float32(0.5),
    "one": np.float32(1), "two": np.float32(2), "three": np.float32(3),
    "c": np.float32(math.sqrt(2 / math.pi)), "k": np.float32(0.044715),
}  # fmt: skip

ERF = [node("Erf", "u", "e"), node("Add", "e one", "g")]
TANH = [node("Tanh", "u", "e"), node("Add", "one e", "g")]
CUBE = [
    node("Pow", "x three", "p"),
    node("Mul", "k p", "q"),
    node("Add", "x q", "s"),
    node("Mul", "c s", "u"),
]

FORMS = {
    "torch": (
        "none",
        [node("Div", "x root", "u"), *ERF, node("Mul", "x g", "m"), node("Mul", "m half", "y")],
    ),
    "keras": (
        "none",
        [node("Mul", "inverse x", "u"), *ERF, node("Mul", "x half", "h"), node("Mul", "h g", "y")],
    ),
    "a gate of half": (
        "none",
        [node("Mul", "x inverse", "u"), *ERF, node("Div", "g two", "h"), node("Mul", "h x", "y")],
    ),
    "gpt-2": ("tanh", [*CUBE, *TANH, node("Mul", "half x", "h"), node("Mul", "h g", "y")]),
    "multiplied out": (
        "tanh",
        [
            node("Mul", "x x", "p"), node("Mul", "p k", "q"), node("Add", "q one", "r"),
            node("Mul", "c x", "s"),
            node("Mul", "s r", "u"), *TANH, node("Mul", "g x", "m"), node("Mul", "m half", "y"),
        ],
    ),
}  # fmt: skip


def net(nodes):
    return model(nodes, {"x": ["N", 6]}, ["y"], NUMBERS)


@pytest.mark.parametrize("name", FORMS)
def test_each_form_becomes_one_operator_that_computes_the_same(name, tmp_path):
    kind, nodes = FORMS[name]
    fused = fuse_gelu(load(net(nodes), tmp_path))
    assert [(each.op_type, attributes_of(each)["approximate"]) for each in fused.nodes] == [("Gelu", kind)]
    x = 3 * normal(4, 6)
    (expected,) = run(net(nodes), {"x": x})
    np.testing.assert_allclose(netweave.run(fused, {"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", ["root", "half", "one", "k"])
def test_another_number_is_another_function(wrong, tmp_path):
    for _, nodes in FORMS.values():
        if wrong in {name for each in nodes for name in each.input}:
            made = model(nodes, {"x": ["N", 6]}, ["y"], {**NUMBERS, wrong: NUMBERS[wrong] * np.float32(1.01)})
            assert "Gelu" not in {each.op_type for each in fuse_gelu(load(made, tmp_path)).nodes}


def test_a_gate_that_is_read_elsewhere_stays(tmp_path):
    made = model(FORMS["torch"][1], {"x": ["N", 6]}, ["y", "e"], NUMBERS)
    assert "Gelu" not in {each.op_type for each in fuse_gelu(load(made, tmp_path)).nodes}
