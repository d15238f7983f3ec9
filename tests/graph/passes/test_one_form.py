"""Two spellings of one operator, and nodes that change nothing: nets that differ in these are identical."""

from __future__ import annotations

import pytest

from netweave.comparison import Verdict, compare
from tests.comparison.onnx_text import read_text

STORED = (
    "<float s = {0.05}, float t = {0.04}, uint8 z = {128}, float half = {0.5}, "
    "float root = {1.4142135}, int64[1] one = {1}, int64[1] two = {2}, float first = {1}, float many = {20}, "
    "float[9] ones = {1,1,1,1,1,1,1,1,1}, "
    "float[9] scale = {2,3,1,4,5,1,2,6,1}, float[9] shift = {1,0,3,1,2,0,1,4,1}>"
)

POOLED = "p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>"

NETS = {
    "once": f"{POOLED}(x) q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z)",
    "twice": (
        f"q0 = QuantizeLinear(x, s, z) d = DequantizeLinear(q0, s, z) {POOLED}(d) "
        "q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z)"
    ),
    "twice, otherwise": (
        f"q0 = QuantizeLinear(x, t, z) d = DequantizeLinear(q0, t, z) {POOLED}(d) "
        "q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z)"
    ),
    "twice, with a mean between": (
        "q0 = QuantizeLinear(x, s, z) d = DequantizeLinear(q0, s, z) "
        "p = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(d) "
        "q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z)"
    ),
    "once, after a mean": (
        "p = AveragePool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x) "
        "q = QuantizeLinear(p, s, z) y = DequantizeLinear(q, s, z)"
    ),
    "normalised": "y = LayerNormalization(x, scale, shift)",
    "normalised in parts": "n = LayerNormalization(x, ones) m = Mul(n, scale) y = Add(m, shift)",
    "normalised, then scaled": "n = LayerNormalization(x, ones) y = Mul(scale, n)",
    "normalised by other scales": "n = LayerNormalization(x, ones) m = Mul(n, shift) y = Add(m, scale)",
    "gelu, half first": "h = Mul(x, half) d = Div(x, root) e = Erf(d) f = Add(e, first) y = Mul(h, f)",
    "gelu, half last": "d = Div(x, root) e = Erf(d) f = Add(e, first) m = Mul(x, f) y = Mul(m, half)",
    "gelu, without its half": "d = Div(x, root) e = Erf(d) f = Add(e, first) y = Mul(x, f)",
    "reciprocal": "a = Abs(x) b = Add(a, half) y = Reciprocal(b)",
    "quotient": "a = Abs(x) b = Add(a, half) y = Div(first, b)",
    "other quotient": "a = Abs(x) b = Add(a, half) y = Div(half, b)",
    "mish": "a = Abs(x) b = Add(a, many) y = Mish(b)",
    "mish in parts": "a = Abs(x) b = Add(a, many) p = Softplus(b) h = Tanh(p) y = Mul(b, h)",
    "mish of another number": "a = Abs(x) b = Add(a, many) p = Softplus(b) h = Tanh(p) y = Mul(a, h)",
    "cast twice": "a = Abs(x) b = Cast<to=1>(a) c = Add(b, half) y = Reciprocal(c)",
    "choice": "a = Abs(x) b = Add(a, half) y = ArgMax<axis=1>(b)",
    "choice by TopK": "a = Abs(x) b = Add(a, half) v, y = TopK<axis=1>(b, one)",
    "choice of the smallest by TopK": "a = Abs(x) b = Add(a, half) v, y = TopK<axis=1, largest=0>(b, one)",
    "choice of the smallest": "a = Abs(x) b = Add(a, half) y = ArgMin<axis=1>(b)",
    "choice of two by TopK": "a = Abs(x) b = Add(a, half) v, y = TopK<axis=1>(b, two)",
    "choice by logarithms": "a = Abs(x) b = Add(a, half) c = Log(b) y = ArgMax<axis=1>(c)",
    "choice by probabilities": "a = Abs(x) b = Add(a, half) c = Softmax<axis=1>(b) y = ArgMax<axis=1>(c)",
    "choice by probabilities over another axis": (
        "a = Abs(x) b = Add(a, half) c = Softmax<axis=3>(b) y = ArgMax<axis=1>(c)"
    ),
    "choice of any number": "y = ArgMax<axis=1>(x)",
    "choice by logarithms of any number": "c = Log(x) y = ArgMax<axis=1>(c)",
}

IDENTICAL = [
    ("normalised", "normalised in parts"),
    ("gelu, half first", "gelu, half last"),
    ("reciprocal", "quotient"),
    ("reciprocal", "cast twice"),
    ("mish", "mish in parts"),
    ("once", "twice"),
    ("choice", "choice by logarithms"),
    ("choice", "choice by probabilities"),
    ("choice", "choice by TopK"),
    ("choice of the smallest", "choice of the smallest by TopK"),
    ("choice by logarithms", "choice by probabilities"),
]

UNLIKE = [
    ("normalised", "normalised, then scaled"),
    ("normalised", "normalised by other scales"),
    ("gelu, half first", "gelu, without its half"),
    ("reciprocal", "other quotient"),
    ("mish", "mish of another number"),
    ("choice", "choice of the smallest by TopK"),
    ("choice", "choice of two by TopK"),
    ("once", "twice, otherwise"),
    ("once, after a mean", "twice, with a mean between"),
    ("choice", "choice by probabilities over another axis"),
    ("choice of any number", "choice by logarithms of any number"),
]


def graph(name, folder):
    kind = f"int64[N,{1 + ('two' in name)},9,9]" if "choice" in name else "float"
    text = f"g (float[N,3,9,9] x) => ({kind} y) {STORED} {{ {NETS[name]} }}"
    return read_text(text, folder, name.replace(" ", "-").replace(",", ""), opset=18)


@pytest.mark.parametrize(("a", "b"), [*IDENTICAL, *(pair[::-1] for pair in IDENTICAL)])
def test_what_changes_nothing_is_no_difference(a, b, tmp_path):
    assert compare(graph(a, tmp_path), graph(b, tmp_path)).verdict is Verdict.IDENTICAL


def test_places_beyond_an_open_size_are_no_error(tmp_path):
    """As a gather of the eighth sample, whose repeated elements are looked at with few samples."""
    stored = "<int64[2] far = {7,7}, int64[4] twice = {1,1,1,2}>"
    text = f"g (float[N,3,9,9] x) => (float y) {stored} {{ v = Gather<axis=0>(x, far) y = Tile(v, twice) }}"
    net = read_text(text, tmp_path, "net")
    assert compare(net, net).verdict is Verdict.IDENTICAL


@pytest.mark.parametrize(("a", "b"), [*UNLIKE, *(pair[::-1] for pair in UNLIKE)])
def test_what_changes_something_is_told(a, b, tmp_path):
    assert compare(graph(a, tmp_path), graph(b, tmp_path)).verdict is not Verdict.IDENTICAL
