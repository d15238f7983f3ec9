"""Every lowering of a standard operator against ONNX's own node tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx_ir as ir
import pytest

pytest.importorskip("torch")

from netweave.graph import effects_of
from netweave.runtime.backends.torch import TorchNet
from netweave.runtime.backends.torch.lower import is_constant, lowering_of
from tests.runtime.backends.torch.node_cases import load_node_cases

CASES = load_node_cases()


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


def marks(case):
    """The same operators written as functions are many: run them with the slow tests."""
    return [pytest.mark.slow] if "_expanded" in case.name else []


OURS = [case for case in CASES if is_ours(case)]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name, marks=marks(c)) for c in OURS])
def test_node_case(case):
    check(case, TorchNet(case.graph).eval().run(case.inputs))


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


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in OURS if settings_of(c)])
def test_node_case_with_constant_settings(case):
    stored = with_constant_settings(case)
    check(case, TorchNet(stored.graph).eval().run(stored.inputs))


def check(case, found):
    for name, expected in case.outputs.items():
        assert found[name].dtype == expected.dtype, name
        rtol = max(case.rtol, 4 * ROUNDING.get(expected.dtype.name, 0))
        finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
        atol = max(case.atol, 1e-7 * finite.max(initial=0))
        np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=atol, err_msg=name)
