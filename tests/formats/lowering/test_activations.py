"""Functions of each element: by every name they compute what torch or their formula says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from netweave.formats.lowering import elementwise
from tests.formats.lowering.contexts import OneLayer

X = np.linspace(-4, 4, 33, dtype=np.float32)
POSITIVE = np.linspace(0.1, 4, 33, dtype=np.float32)
SPECIAL = np.float32([1, np.inf, -np.inf, np.nan])
UNIT = np.linspace(-0.9, 0.9, 33, dtype=np.float32)

TORCH = {
    "Abs": (torch.abs, X), "Acos": (torch.acos, UNIT), "Acosh": (torch.acosh, POSITIVE + 1),
    "Asin": (torch.asin, UNIT), "Asinh": (torch.asinh, X), "Atan": (torch.atan, X),
    "Atanh": (torch.atanh, UNIT), "Ceil": (torch.ceil, X), "Celu": (functional.celu, X),
    "Cos": (torch.cos, X), "Cosh": (torch.cosh, X), "Elu": (functional.elu, X), "Erf": (torch.erf, X),
    "Exp": (torch.exp, X), "Floor": (torch.floor, X), "Identity": (lambda x: x, X),
    "IsInf": (torch.isinf, SPECIAL), "IsNaN": (torch.isnan, SPECIAL), "Log": (torch.log, POSITIVE),
    "Mish": (functional.mish, X), "Neg": (torch.neg, X), "Reciprocal": (torch.reciprocal, POSITIVE),
    "Relu": (functional.relu, X), "Round": (torch.round, X), "Selu": (functional.selu, X),
    "Sigmoid": (torch.sigmoid, X), "Sign": (torch.sign, X), "Sin": (torch.sin, X), "Sinh": (torch.sinh, X),
    "Softplus": (functional.softplus, X), "Softsign": (functional.softsign, X),
    "Sqrt": (torch.sqrt, POSITIVE), "Tan": (torch.tan, UNIT), "Tanh": (torch.tanh, X),
    "erfc": (torch.erfc, X), "expm1": (torch.expm1, X), "hardshrink": (functional.hardshrink, X),
    "hardtan": (functional.hardtanh, X), "hardtanh": (functional.hardtanh, X),
    "log1p": (torch.log1p, POSITIVE), "relu6": (functional.relu6, X), "rsqrt": (torch.rsqrt, POSITIVE),
    "silu": (functional.silu, X), "softshrink": (functional.softshrink, X), "square": (torch.square, X),
    "swish": (functional.silu, X), "tanhshrink": (functional.tanhshrink, X),
}  # fmt: skip
"""What each operator and each expansion computes, and numbers that it is defined for."""


def _computed(function, x: np.ndarray) -> np.ndarray:
    ctx = OneLayer(x=x)
    (y,) = ctx.run([function(ctx, ctx.x)])
    return y


@pytest.mark.parametrize("name", sorted(set(elementwise.FUNCTIONS) - {"not", "logicalnot"}))
def test_a_function_by_its_name(name: str) -> None:
    op_type = elementwise.SYNONYMS.get(name, name)
    oracle, x = next(row for key, row in TORCH.items() if key.lower() == op_type.lower())
    np.testing.assert_allclose(_computed(elementwise.FUNCTIONS[name], x), oracle(torch.tensor(x)), atol=2e-6)


@pytest.mark.parametrize("name", ["LeakyReLU", "gelu", "hard_sigmoid", "GLU"])
def test_a_name_whose_numbers_differ_is_no_function(name: str) -> None:
    assert elementwise.find_function(name) is None


def test_spellings_of_one_name() -> None:
    assert len({elementwise.find_function(name) for name in ("TanhShrink", "tanh_shrink", "tanhshrink")}) == 1


@pytest.mark.parametrize("beta", [1.0, 0.5])
def test_swish_and_softplus(beta: float) -> None:
    x = torch.tensor(X)
    swish = _computed(lambda ctx, value: elementwise.swish(ctx, value, beta), X)
    np.testing.assert_allclose(swish, x * torch.sigmoid(beta * x), atol=1e-6)
    softplus = _computed(lambda ctx, value: elementwise.softplus(ctx, value, beta), X)
    np.testing.assert_allclose(softplus, functional.softplus(x, beta), atol=1e-6)


@pytest.mark.parametrize("slope", [0.2, 1 / 6])
def test_hard_sigmoid_and_swish(slope: float) -> None:
    line = np.clip(slope * X + 0.5, 0, 1)
    sigmoid = _computed(lambda ctx, x: elementwise.hard_sigmoid(ctx, x, slope=slope), X)
    np.testing.assert_allclose(sigmoid, line, atol=1e-6)
    swish = _computed(lambda ctx, x: elementwise.hard_swish(ctx, x, slope=slope), X)
    np.testing.assert_allclose(swish, X * line, atol=1e-6)


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu(approximate: bool) -> None:
    expected = functional.gelu(torch.tensor(X), approximate="tanh" if approximate else "none")
    y = _computed(lambda ctx, x: elementwise.gelu(ctx, x, approximate=approximate), X)
    np.testing.assert_allclose(y, expected, atol=1e-6)


@pytest.mark.parametrize("threshold", [0.0, 1.5])
@pytest.mark.parametrize("limit", [None, 2.0])
@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_rectify(slope: float, limit: float | None, threshold: float) -> None:
    above = np.minimum(X, math.inf if limit is None else limit)
    expected = np.where(threshold <= X, above, slope * (X - threshold))
    settings = {"slope": slope, "limit": limit, "threshold": threshold}
    y = _computed(lambda ctx, x: elementwise.rectify(ctx, x, **settings), X)
    np.testing.assert_allclose(y[threshold != X], expected[threshold != X], atol=1e-6)


@pytest.mark.parametrize(("low", "high"), [(-1.0, None), (None, 1.0), (-1.0, 1.0)])
def test_clip(low: float | None, high: float | None) -> None:
    y = _computed(lambda ctx, x: elementwise.clip(ctx, x, low, high), X)
    np.testing.assert_array_equal(y, np.clip(X, low, high))


BINARY = {
    "Add": np.add, "And": np.logical_and, "Div": np.divide, "Equal": np.equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal, "Max": np.maximum,
    "Min": np.minimum, "Mul": np.multiply, "Or": np.logical_or, "Pow": np.power, "Sub": np.subtract,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(elementwise.BINARY_OPERATORS))
def test_an_operator_on_two_tensors(name: str) -> None:
    op_type = elementwise.find_operator(name)
    a, b = POSITIVE, POSITIVE[::-1].copy()
    ctx = OneLayer(a=a, b=b)
    operands = [ctx.inputs["a"], ctx.inputs["b"]]
    if op_type in {"And", "Or"}:
        operands = [ctx.add("Greater", [value, ctx.scalar(2.0, value)]) for value in operands]
        a, b = a > 2, b > 2
    (y,) = ctx.run([ctx.add(op_type, operands)])
    np.testing.assert_allclose(y, BINARY[op_type](a, b), rtol=1e-5)
