"""Layers that differ on few inputs: far below zero, or exactly on a threshold; they are never *identical*."""

from __future__ import annotations

import pytest

import netweave
from netweave.comparison import Verdict
from tests.comparison.onnx_text import read_text

ROW = "g (float[N,8] x) => (float[N,8] y) <float k = {40}, float c = {0.3}> { BODY }"
STEEP = ROW.replace("40", "400")
BOOLS = "g (float[N,8] x) => (bool[N,8] y) <float c = {0.3}> { BODY }"

PLACES = "g (float[N,8] x) => (int64[N,1] y) <float lo = {-3}, float hi = {3}> { BODY }"

PAIRS = {
    "a bound that changes less than rounding does": (
        PLACES,
        "a = Sigmoid(x) e = Erf(x) m = Mul(a, e) y = ArgMax<axis=1>(m)",
        "a = Sigmoid(x) c = Clip(x, lo, hi) e = Erf(c) m = Mul(a, e) y = ArgMax<axis=1>(m)",
    ),
    "numbers that a sigmoid makes equal": (
        ROW,
        "s = Softmax(x) y = Hardmax(s)",
        "s = Softmax(x) t = Sigmoid(s) y = Hardmax(t)",
    ),
    "numbers that a tangent makes equal": (
        ROW,
        "s = Sigmoid(x) y = Hardmax(s)",
        "s = Sigmoid(x) t = Tanh(s) y = Hardmax(t)",
    ),
    "a saturation before a choice": (ROW, "y = Hardmax(x)", "e = Elu<alpha=0.07>(x) y = Hardmax(e)"),
    "a value on the threshold": (BOOLS, "y = Greater(x, c)", "y = GreaterOrEqual(x, c)"),
    "a curve that a threshold hides": (
        ROW,
        "m = Mish(x) y = Shrink<bias=2.9, lambd=5.9>(m)",
        "m = Celu(x) y = Shrink<bias=2.9, lambd=5.9>(m)",
    ),
    "small values of one sign beside large ones of the other": (
        ROW,
        "t = Mul(x, k) m = Mish(t) two = Constant<value_float=2.0>() y = Pow(m, two)",
        "t = Mul(x, k) m = Mish(t) r = Relu(m) two = Constant<value_float=2.0>() y = Pow(r, two)",
    ),
    "a sign where all is flat": (ROW, "m = Mul(x, k) y = Gelu(m)", "m = Mul(x, k) r = Relu(m) y = Gelu(r)"),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_what_few_inputs_show_is_no_equality(pair, tmp_path):
    frame, *bodies = pair
    a, b = (
        read_text(frame.replace("BODY", body), tmp_path, name, opset=20)
        for name, body in zip("ab", bodies, strict=True)
    )
    assert not netweave.compare(a, b).is_strictly_equal


def test_a_layer_that_another_one_hides_is_tried_on_small_numbers(tmp_path):
    a, b = (
        read_text(STEEP.replace("BODY", body), tmp_path, name, opset=20)
        for name, body in (("a", "m = Mul(x, k) y = Gelu(m)"), ("b", "m = Mul(x, k) r = Relu(m) y = Gelu(r)"))
    )
    assert netweave.compare(a, b).verdict is Verdict.DIFFERENT


CHOSEN = """
g (float[N,8] x) => (float[N,8] y) <float k = {40}, float c = {7}> {
  s = Softmax(x) m = Mul(s, k) n = Mul(s, k)
  r = ReduceMean<keepdims=0>(m) b = Greater(r, c)
  z = If (b) <then_branch = t () => (u) { u = Add(READ, c) }, else_branch = e () => (w) { w = Abs(READ) }>
  y = ThresholdedRelu<alpha=0.1>(z)
}"""


def test_a_value_that_a_layer_gives_back_is_not_what_it_reads(tmp_path):
    """Of two equal products in B, the second has the values of A's choice as well."""
    nets = [read_text(CHOSEN.replace("READ", read), tmp_path, read) for read in "mn"]
    assert netweave.compare(*nets).verdict is Verdict.IDENTICAL
