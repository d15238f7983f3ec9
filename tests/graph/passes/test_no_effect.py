"""Casts, clips and repeated functions that change no number: a net without them is the same net."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict
from netweave.graph.passes.no_effect import drop_idle_nodes
from tests.comparison.onnx_text import read_text

IDLE = {
    "from whole numbers of a small range": (
        "int64[N,8] x",
        "m = Mod(x, k) a = Cast<to=1>(m) y = Cast<to=2>(a)",
        ["Mod", "Cast"],
    ),
    "from half precision": (
        "float[N,8] x",
        "h = Cast<to=10>(x) a = Cast<to=1>(h) y = Cast<to=6>(a)",
        ["Cast", "Cast"],
    ),
    "there and back": (
        "float16[N,8] x",
        "h = Neg(x) a = Cast<to=1>(h) y = Cast<to=10>(a)",
        ["Neg"],
    ),
    "of what a function bounds": (
        "int64[N] x",
        "o = OneHot(x, k, v) s = Softplus(o) i = Cast<to=6>(s) a = Cast<to=1>(i) y = Cast<to=2>(a)",
        ["OneHot", "Softplus", "Cast", "Cast"],
    ),
    "of what was cut off before": (
        "float[N,8] x",
        "i = Cast<to=7>(x) a = Cast<to=1>(i) y = Cast<to=2>(a)",
        ["Cast", "Cast"],
    ),
    "of numbers that are infinite in half precision": (
        "int64[N,8] x",
        "a = Cast<to=1>(x) y = Cast<to=10>(a)",
        ["Cast"],
    ),
    "to twice as many bits": ("int32[N,8] x", "a = Cast<to=11>(x) y = Cast<to=2>(a)", ["Cast"]),
    "a second sign": ("float[N,8] x", "a = Sign(x) y = Sign(a)", ["Sign"]),
    "a second rectifier": ("float[N,8] x", "a = Relu(x) y = Relu(a)", ["Relu"]),
    "a second clip": ("float[N,8] x", "a = Clip(x, lo, hi) y = Clip(a, lo, hi)", ["Clip"]),
    "a second clip from above": ("float[N,8] x", "a = Clip(x, , hi) y = Clip(a, , hi)", ["Clip"]),
    "of a product of whole numbers": (
        "uint8[N,8] x",
        "a = Cast<to=1>(x) m = Mul(a, one) i = Cast<to=2>(m) y = Cast<to=1>(i)",
        ["Cast", "Mul"],
    ),
    "before bounds below what is there": ("float[N,8] x", "a = Relu(x) y = Clip(a, least, less)", ["Clip"]),
    "padding by nothing": ("float[N,8] x", "a = Pad(x, none) y = Sign(a)", ["Sign"]),
    "before bounds that cross": ("float[N,8] x", "a = Clip(x, lo, hi) y = Clip(a, hi, lo)", ["Clip"]),
}
"""Inputs, nodes, and the operators that are left."""

ACTING = {
    "to half precision and back": ("float[N,8] x", "a = Cast<to=10>(x) y = Cast<to=1>(a)", 2),
    "of large whole numbers by float32": ("int64[N,8] x", "a = Cast<to=1>(x) y = Cast<to=7>(a)", 2),
    "through whole numbers": ("float[N,8] x", "a = Cast<to=6>(x) y = Cast<to=1>(a)", 2),
    "another bound": ("float[N,8] x", "a = Clip(x, lo, hi) y = Clip(a, lo)", 2),
    "another function": ("float[N,8] x", "a = Sign(x) y = Abs(a)", 2),
    "a half": ("uint8[N,8] x", "a = Cast<to=1>(x) m = Mul(a, half) i = Cast<to=2>(m) y = Cast<to=1>(i)", 4),
    "too large": ("uint8[N,8] x", "a = Cast<to=1>(x) m = Mul(a, hi) i = Cast<to=2>(m) y = Cast<to=1>(i)", 4),
    "a mean": (
        "uint8[N,8] x",
        "a = Cast<to=1>(x) m = ReduceMean<axes=[1]>(a) i = Cast<to=2>(m) b = Cast<to=1>(i) y = Add(a, b)",
        5,
    ),
    "padding": ("float[N,8] x", "a = Pad(x, columns) s = Slice(a, zero, eight, first) y = Sign(s)", 3),
    "bounds that leave zero and more": ("float[N,8] x", "a = Relu(x) y = Clip(a, least, hi)", 2),
}

TYPES = {1: "float", 2: "uint8", 6: "int32", 7: "int64", 10: "float16"}


def read(inputs, body, folder, name):
    last = body[body.rindex("y = ") :]
    kind = next((TYPES[n] for n in TYPES if last.startswith(f"y = Cast<to={n}>")), "float")
    rank = "N,K" if "OneHot" in body else "N,8"
    stored = (
        "int64 k = {30}, float[2] v = {0,1}, float lo = {0}, float hi = {6}, float least = {-7}, "
        "float less = {-2}, float one = {1}, float half = {0.5}, int64[4] none = {0, 0, 0, 0}, "
        "int64[4] columns = {0, 1, 0, 0}, int64[1] zero = {0}, int64[1] eight = {8}, int64[1] first = {1}"
    )
    return read_text(f"g ({inputs}) => ({kind}[{rank}] y) <{stored}> {{ {body} }}", folder, name)


@pytest.mark.parametrize(("inputs", "body", "left"), IDLE.values(), ids=IDLE)
def test_a_node_that_changes_nothing_goes(inputs, body, left, tmp_path):
    graph = drop_idle_nodes(read(inputs, body, tmp_path, "net"))
    assert [node.op_type for node in graph.nodes] == left
    assert [value.name for value in graph.outputs] == ["y"]


@pytest.mark.parametrize(("inputs", "body"), [row[:2] for row in IDLE.values()], ids=IDLE)
def test_a_net_computes_the_same_without_it(inputs, body, tmp_path):
    graph = read(inputs, body, tmp_path, "net")
    dtype = graph.inputs[0].dtype.numpy()
    x = np.random.default_rng(0).normal(0, 9, (3, 8))
    x = (np.abs(x) if dtype.kind == "u" else x).astype(dtype)
    x = x[:, 0] if "[N]" in inputs else x
    (before,), (after,) = (netweave.run(net, {"x": x}).values() for net in (graph, drop_idle_nodes(graph)))
    np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize(("inputs", "body", "number"), ACTING.values(), ids=ACTING)
def test_a_node_that_changes_a_number_stays(inputs, body, number, tmp_path):
    assert len(drop_idle_nodes(read(inputs, body, tmp_path, "net")).nodes) == number


def test_a_cast_that_others_read_stays(tmp_path):
    text = (
        "g (float16[N,8] x) => (float[N,8] z, int32[N,8] y) "
        "{ a = Cast<to=1>(x) y = Cast<to=6>(a) z = Relu(a) }"
    )
    graph = drop_idle_nodes(read_text(text, tmp_path, "net"))
    assert [node.op_type for node in graph.nodes] == ["Cast", "Cast", "Relu"]
    assert graph.nodes[1].inputs[0] is graph.inputs[0]


@pytest.mark.parametrize(("rows", "op_types"), [(9, ["Gather", "ArgMax"]), (None, ["Cast", "ArgMax"])])
def test_a_cast_of_numbers_of_rows_goes_before_a_choice(rows, op_types, tmp_path):
    table = "t = Gather(rows, x)" if rows else ""
    outputs = ("float[N,8,2] t, " if rows else "") + "int64[N] y"
    body = f"{table} a = Cast<to=6>(x) y = ArgMax<axis=1, keepdims=0>(a)"
    stored = f"float[9,2] rows = {{{', '.join(map(str, range(18)))}}}"
    graph = read_text(f"g (int64[N,8] x) => ({outputs}) <{stored}> {{ {body} }}", tmp_path, "net")
    assert sorted(node.op_type for node in drop_idle_nodes(graph).nodes) == sorted(op_types)


def test_a_net_without_the_cast_is_identical(tmp_path):
    bodies = ("m = Mod(x, k) a = Cast<to=1>(m) y = Cast<to=2>(a)", "m = Mod(x, k) y = Cast<to=2>(m)")
    a, b = (read("int64[N,8] x", body, tmp_path, name) for body, name in zip(bodies, "ab", strict=True))
    assert netweave.compare(a, b).verdict is Verdict.IDENTICAL
