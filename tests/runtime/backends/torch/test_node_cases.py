"""Every lowering of a standard operator against ONNX's own node tests."""

from __future__ import annotations

import functools
from collections import defaultdict
from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("torch")

from netweave.graph import effects_of
from netweave.runtime.backends.torch import TorchNet, all_lowerings
from netweave.runtime.backends.torch.lower import is_constant, lowering_of
from tests.runtime.backends.torch.node_cases import check_all, load_node_cases

TORCH_LACKS = {np.dtype(name) for name in ("uint16", "uint32", "uint64")}
"""Torch stores these, but has no arithmetic for them."""

ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}
"""Relative rounding of narrow types; sums taken in another order differ by a few of them."""


def is_lowered(case):
    return all(is_constant(node) or lowering_of(case.graph, node) for node in case.graph.nodes)


def is_ours(case):
    """Whether a case can be judged: the result is determined, and torch has the element types."""
    dtypes = {array.dtype for array in (*case.inputs.values(), *case.outputs.values())}
    return (
        is_lowered(case)
        and not dtypes & TORCH_LACKS
        and all(dtype.kind in "biufc" or dtype.name == "bfloat16" for dtype in dtypes)
        and not any(effects_of(node) for node in case.graph.nodes)
    )


WITHOUT_CASES = """
    Bernoulli BlackmanWindow Cast CastLike ConvInteger CumSum DynamicQuantizeLinear GlobalLpPool HammingWindow
    HannWindow MaxRoiPool Multinomial OneHot QLinearConv RandomNormal RandomNormalLike RandomUniform
    RandomUniformLike"""
"""Operators of which ONNX has no test that can be judged."""

OPERATORS = sorted(
    {"Constant", *(row.op_type for row in all_lowerings() if not row.domain)} - set(WITHOUT_CASES.split())
)


@functools.cache
def our_cases():
    """The cases that can be judged."""
    return [case for case in load_node_cases() if is_ours(case)]


@functools.cache
def cases_by_operator():
    """The cases of single operators, and under '' those of the same operators written as functions."""
    cases = defaultdict(list)
    for case in our_cases():
        cases["" if "_expanded" in case.name else case.graph.nodes[-1].op_type].append(case)
    return dict(cases)


def check_outputs(case):
    check(case, TorchNet(case.graph).eval().run(case.inputs))


@pytest.mark.parametrize("op_type", OPERATORS)
def test_node_cases(op_type):
    check_all(cases_by_operator()[op_type], check_outputs)


@pytest.mark.slow
def test_node_cases_written_as_functions():
    check_all(cases_by_operator()[""], check_outputs)


def test_every_case_belongs_to_an_operator_of_the_list():
    assert set(cases_by_operator()) == {"", *OPERATORS}


def settings_of(case):
    """Return the inputs that arrive as Python numbers: in real nets most of these are constants."""
    nodes = case.graph.nodes
    if len(nodes) > 1 or is_constant(nodes[0]):
        return []
    row = lowering_of(case.graph, nodes[0])
    named = [value for i, value in enumerate(nodes[0].inputs) if value and row.arrival(i) != "tensor"]
    return [value for value in named if value in case.graph.inputs]


def with_constant_settings(case):
    """Return the case with these inputs stored in the net."""
    graph, given = case.graph.clone(), dict(case.inputs)
    for value in settings_of(replace(case, graph=graph)):
        value.const_value = ir.Tensor(given.pop(value.name))
        graph.model.graph.inputs.remove(value)
        graph.model.graph.register_initializer(value)
    return replace(case, graph=graph, inputs=given)


def test_node_cases_with_constant_settings():
    cases = [case for case in our_cases() if settings_of(case)]
    assert len(cases) > 200
    check_all(cases, lambda case: check_outputs(with_constant_settings(case)))


def check(case, found):
    for name, expected in case.outputs.items():
        assert found[name].dtype == expected.dtype, name
        rtol = max(case.rtol, 4 * ROUNDING.get(expected.dtype.name, 0))
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        atol = max(case.atol, 1e-7 * finite.max(initial=0))
        np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=atol, err_msg=name)
