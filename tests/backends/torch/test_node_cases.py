"""Every lowering of a standard operator against ONNX's own node tests."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from netweave.backends.torch import TorchNet, find_lowering
from netweave.backends.torch.lower import is_constant, version_of
from netweave.graph import effects_of
from tests.backends.torch.node_cases import load_node_cases

CASES = load_node_cases()


TORCH_LACKS = {np.dtype(name) for name in ("uint16", "uint32", "uint64")}
"""Torch stores these, but has no arithmetic for them."""

ROUNDING = {"float16": 2**-11, "bfloat16": 2**-8}
"""Relative rounding of narrow types; sums taken in another order differ by a few of them."""


def is_lowered(case):
    return all(
        is_constant(node) or find_lowering(node.domain, node.op_type, version_of(case.graph, node.domain))
        for node in case.graph.nodes
    )


def is_ours(case):
    """Whether a case can be judged: the result is determined, and torch has the element types."""
    dtypes = {array.dtype for array in (*case.inputs.values(), *case.outputs.values())}
    return (
        is_lowered(case)
        and not dtypes & TORCH_LACKS
        and all(dtype.kind in "biufc" or dtype.name == "bfloat16" for dtype in dtypes)
        and not any(effects_of(node) for node in case.graph.nodes)
    )


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in CASES if is_ours(c)])
def test_node_case(case):
    found = TorchNet(case.graph).eval().run(case.inputs)
    for name, expected in case.outputs.items():
        assert found[name].dtype == expected.dtype, name
        rtol = max(case.rtol, 4 * ROUNDING.get(expected.dtype.name, 0))
        np.testing.assert_allclose(found[name], expected, rtol=rtol, atol=case.atol, err_msg=name)
