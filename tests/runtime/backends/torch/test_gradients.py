"""Gradients of the standard operators against finite differences, on the inputs of ONNX's node tests."""

from __future__ import annotations

import functools
from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("torch")

import onnx_ir as ir
import torch

from netweave.graph import GraphBuilder
from netweave.runtime.backends.torch import TorchNet, all_lowerings
from netweave.runtime.backends.torch.lower import lowering_of
from tests.runtime.backends.torch.node_cases import NodeCase, check_all
from tests.runtime.backends.torch.test_node_cases import our_cases

NO_GRADIENT = {
    "steps, comparisons and whole numbers": """
        And ArgMax ArgMin BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil ConvInteger
        DynamicQuantizeLinear Equal Floor Greater GreaterOrEqual Hardmax IsInf IsNaN Less LessOrEqual
        MatMulInteger NonMaxSuppression NonZero Not Or QLinearConv QLinearMatMul QuantizeLinear Round Shape
        Sign Size Unique Xor""",
    "made from settings or sizes": "BlackmanWindow ConstantOfShape EyeLike HammingWindow HannWindow Range",
    "random": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
}

CONSTANT_INPUTS = {
    "BatchNormalization": {3, 4},
    "MaxRoiPool": {1},
    "NegativeLogLikelihoodLoss": {2},
    "RoiAlign": {1},
    "SoftmaxCrossEntropyLoss": {2},
}
"""Inputs towards which torch has no gradient, and no source has one either."""


def is_real(array):
    return array.dtype in (np.float32, np.float64)


def leaves(case):
    """Return which inputs of a node are differentiated."""
    (node,) = case.graph.nodes
    row = lowering_of(case.graph, node)
    constant = CONSTANT_INPUTS.get(node.op_type, set())
    return {
        value.name
        for index, value in enumerate(node.inputs)
        if value is not None and row.arrival(index) == "tensor" and index not in constant
        if is_real(case.inputs[value.name])
    }


def is_smooth(case):
    arrays = (*case.inputs.values(), *case.outputs.values())
    (node,) = case.graph.nodes
    return (
        node.op_type not in " ".join(NO_GRADIENT.values()).split()
        and any(is_real(array) for array in case.outputs.values())
        and all(array.size and np.isfinite(array.astype(np.float64)).all() for array in arrays)
        and bool(leaves(case))
    )


def one_node(op_type, *arrays, **attributes):
    """A case of our own, where ONNX has none with real numbers."""
    builder = GraphBuilder(op_type, format="onnx")
    kinds = {"f": ir.DataType.DOUBLE, "i": ir.DataType.INT64}
    names = [f"input{index}" for index in range(len(arrays))]
    inputs = [
        builder.input(name, array.shape, dtype=kinds[array.dtype.kind], batch=False)
        for name, array in zip(names, arrays, strict=True)
    ]
    graph = builder.finish([builder.add(op_type, inputs, attributes, outputs="y")])
    given = dict(zip(names, arrays, strict=True))
    return NodeCase(f"own_{op_type}", graph, given, TorchNet(graph).run(given), 0, 0)


PLANE = np.random.default_rng(1).standard_normal((2, 3, 5, 6))


def own_cases():
    return [
        one_node("CumSum", PLANE, np.array(2), reverse=1, exclusive=1),
        one_node("GlobalLpPool", PLANE, p=3),
        one_node("MaxRoiPool", PLANE, np.array([[1, 0, 1, 4, 4.0]]), pooled_shape=[2, 2]),
        one_node("OneHot", np.array([0, 2]), np.array(3), np.array([0.5, 2.0])),
        one_node("Pad", PLANE, np.array([0, 1, 0, 2, 0, 0, -1, 1]), mode="constant"),
        one_node("Pad", PLANE, np.array([0, 0, 3, 2, 0, 0, 2, 1]), mode="reflect"),
        one_node("Trilu", PLANE, np.array(1), upper=0),
    ]


SMOOTH = sorted(
    {row.op_type for row in all_lowerings() if not row.domain} - set(" ".join(NO_GRADIENT.values()).split())
)


@functools.cache
def smooth_cases():
    """The cases by operator."""
    cases = defaultdict(list)
    for case in (*our_cases(), *own_cases()):
        if len(case.graph.nodes) == 1 and is_smooth(case):
            cases[case.graph.nodes[0].op_type].append(case)
    return dict(cases)


def check_gradient(case):
    """Inputs are moved a little, since many of the tests stand on a kink."""
    rng, inputs = np.random.default_rng(0), []
    for name, array in case.inputs.items():
        if name in leaves(case):
            wide = array + 1e-3 * rng.uniform(0.1, 1, array.shape)
            inputs.append(torch.tensor(wide, dtype=torch.float64, requires_grad=True))
        else:
            inputs.append(torch.tensor(array.astype(np.float64) if is_real(array) else array))
    net = TorchNet(case.graph).to(torch.float64).eval()

    def outputs(*tensors):
        return tuple(y for y in net.module.forward(*tensors) if y.is_floating_point())

    assert torch.autograd.gradcheck(outputs, inputs, fast_mode=True)


@pytest.mark.parametrize("op_type", SMOOTH)
def test_gradients(op_type):
    check_all(smooth_cases()[op_type], check_gradient)


def test_every_operator_is_checked_or_has_no_gradient():
    assert set(smooth_cases()) == set(SMOOTH)
