"""Layers that one net writes in parts: they are held against all of them, in both orders."""

from __future__ import annotations

import pytest

import netweave
from netweave.comparison import Verdict
from tests.comparison.test_exercised import BYTES, IMAGE, INTEGERS, ROW, clip, nets_of, scalar

HOT = (
    "b = Constant<value_int=5>() o = Constant<value_floats=[0.0,1.0]>() h = OneHot<axis=2>(x, b, o) "
    "m = ReduceMax<axes=[2], keepdims=0>(h) "
)

IN_PARTS = {
    "a dequantiser for each reader": (
        ROW,
        "q, s, z = DynamicQuantizeLinear(x) d = DequantizeLinear(q, s, z) "
        + scalar("c", -6.5)
        + "l = Less(d, c) n = Neg(d) y = Where(l, n, d)",
        "q, s, z = DynamicQuantizeLinear(x) d = DequantizeLinear(q, s, z) e = DequantizeLinear(q, s, z) "
        + "f = DequantizeLinear(q, s, z) "
        + scalar("c", -6.5)
        + "l = Less(d, c) n = Neg(e) y = Where(l, n, f)",
    ),
    "a hard sigmoid that is mostly saturated, in parts": (
        IMAGE,
        scalar("c", 400.0) + "m = Mul(x, c) y = HardSigmoid<alpha=0.25>(m)",
        scalar("c", 400.0)
        + "m = Mul(x, c) "
        + scalar("a", 0.25)
        + scalar("b", 0.5)
        + "n = Mul(m, a) t = Add(n, b) "
        + clip("t", 0.0, 1.0, "y"),
    ),
    "a hard sigmoid that is nowhere saturated, in parts": (
        ROW,
        "s = Sigmoid(x) h = HardSigmoid<alpha=0.25>(s) y = Floor(h)",
        "s = Sigmoid(x) "
        + scalar("a", 0.25)
        + scalar("b", 0.5)
        + "n = Mul(s, a) t = Add(n, b) "
        + clip("t", 0.0, 1.0, "h")
        + "y = Floor(h)",
    ),
    "a Celu of what is never negative, in parts": (
        INTEGERS,
        HOT + "c = Celu<alpha=0.5>(m) y = Selu(c)",
        scalar("z", 0.0)
        + scalar("d", 2.0)
        + scalar("a", 0.5)
        + HOT
        + "p = Max(m, z) q = Mul(m, d) e = Exp(q) f = Mul(e, a) g = Sub(f, a) n = Min(g, z) c = Add(p, n) "
        + "y = Selu(c)",
    ),
    "an axis counted from the end": (
        INTEGERS,
        *(
            "d = Constant<value_int=5>() o = Constant<value_floats=[0.0,1.0]>() "
            f"h = OneHot<axis={axis}>(x, d, o) y = ReduceMax<axes=[2], keepdims=0>(h)"
            for axis in (-1, 2)
        ),
    ),
    "a loop with its nodes in another order": (
        ROW,
        *(
            "n = Constant<value_int=3>() t = Constant<value_int=1>() b = Cast<to=9>(t) "
            "y = Loop <body = l (int64 i, bool before, float[N,8] s) => (bool after, float[N,8] e) "
            f"{{ {first} m = Neg(s) e = Selu(m) {last} }}>(n, b, x)"
            for first, last in (("after = Identity(before)", ""), ("", "after = Identity(before)"))
        ),
    ),
    "a HardSwish of what is mostly 1, in parts": (
        ROW,
        scalar("c", 100.0) + "m = Mul(x, c) t = Tanh(m) o = Abs(t) h = HardSwish(o) y = Neg(h)",
        scalar("c", 100.0)
        + "m = Mul(x, c) t = Tanh(m) o = Abs(t) s = HardSigmoid<alpha=0.166666667>(o) "
        + "h = Mul(o, s) y = Neg(h)",
    ),
    "a product by 1 between layers of whole numbers": (
        BYTES,
        scalar("c", 1.0) + "m = Mul(f, c) r = Floor(m) i = Cast<to=6>(r) y = Cast<to=1>(i)",
        "r = Floor(f) i = Cast<to=6>(r) y = Cast<to=1>(i)",
    ),
    "a factor before or after a cast": (
        INTEGERS,
        scalar("c", 29) + "m = Mul(x, c) f = Cast<to=1>(m) y = Neg(f)",
        scalar("c", 29.0) + "f = Cast<to=1>(x) m = Mul(f, c) y = Neg(m)",
    ),
}


@pytest.mark.parametrize("case", IN_PARTS.values(), ids=IN_PARTS)
def test_a_layer_in_parts_is_held_against_all_of_them(case, tmp_path):
    a, b = nets_of(case, tmp_path)
    assert netweave.compare(a, b).verdict is Verdict.IDENTICAL
    assert netweave.compare(b, a).verdict is Verdict.IDENTICAL
