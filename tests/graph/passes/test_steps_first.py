"""Dense layers over the rows of a sequence are computed over the sequence, with the same numbers."""

from __future__ import annotations

import numpy as np
import pytest

import netweave
from netweave.comparison import Verdict, compare
from netweave.graph.passes.steps_first import examples_first, num_over_rows, over_sequences, steps_first
from tests.comparison.onnx_text import read_text

RNG = np.random.default_rng(3)


def numbers(*shape):
    return ", ".join(f"{x:.6f}" for x in RNG.standard_normal(shape).ravel())


W, V = numbers(4, 6), numbers(6)
STORED = (
    f"float[4,6] w = {{{W}}}, float[6] v = {{{V}}}, int64[2] rows = {{-1, 4}}, int64[3] back = {{-1, 3, 6}}"
)
OVER_ROWS = f"""g (float[N,3,4] x) => (float[N,3,6] y) <{STORED}>
{{ flat = Reshape(x, rows)  z = Gemm(flat, w, v)  s = Reshape(z, back)  y = Tanh(s) }}"""
OVER_STEPS = f"""g (float[N,3,4] x) => (float[N,3,6] y) <float[4,6] w = {{{W}}}, float[6] v = {{{V}}}>
{{ z = MatMul(x, w)  s = Add(z, v)  y = Tanh(s) }}"""
MOVED = OVER_ROWS.replace("float[N,3,6] y", "float[N,6,3] y").replace("{-1, 3, 6}", "{-1, 6, 3}")


def test_rows_become_the_sequence_they_are_of(tmp_path):
    graph = read_text(OVER_ROWS, tmp_path, "rows")
    changed = over_sequences(graph)
    assert (num_over_rows(graph), num_over_rows(changed)) == (1, 0)
    assert [node.op_type for node in changed.nodes] == ["MatMul", "Add", "Tanh"]
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    first, second = (netweave.run(each, {"x": x})["y"] for each in (graph, changed))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


def test_a_result_that_is_given_other_axes_stays(tmp_path):
    assert num_over_rows(read_text(MOVED, tmp_path, "moved")) == 0


def test_nets_that_differ_in_it_alone_are_identical(tmp_path):
    nets = [read_text(text, tmp_path, name) for name, text in (("rows", OVER_ROWS), ("steps", OVER_STEPS))]
    comparison = compare(*nets)
    assert comparison.verdict is Verdict.IDENTICAL
    assert not comparison.findings


STEPS_FIRST = f"""g (float[N,3,4] x) => (float[N,6] y)
<float[4,6] w = {{{W}}}, float[6] v = {{{V}}}, float[3,1,4] places = {{{numbers(3, 1, 4)}}},
 int64 last = {{2}}, float[6] g = {{{numbers(6)}}}>
{{ h = Tanh(x)  t = Transpose<perm = [1, 0, 2]>(h)  p = Add(t, places)  z = MatMul(p, w)  s = Add(z, v)
  n = LayerNormalization(s, g)  r = Add(s, n)  y = Gather<axis = 0>(r, last) }}"""
KEPT = STEPS_FIRST.replace("LayerNormalization(s, g)", "ReduceSum<keepdims = 1>(s, axes)").replace(
    "int64 last", "int64[1] axes = {0}, int64 last"
)


def test_a_transpose_goes_behind_all_that_computes_each_step_by_itself(tmp_path):
    graph = read_text(STEPS_FIRST, tmp_path, "first")
    changed = examples_first(graph)
    assert (steps_first(graph), steps_first(changed)) == ([(1, 0, 2)], [])
    assert [node.op_type for node in changed.nodes] == [
        "Tanh", "Add", "MatMul", "Add", "LayerNormalization", "Add", "Gather"
    ]  # fmt: skip
    assert {str(value.name) for node in changed.nodes for value in node.outputs} >= set("hpsnry")
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    first, second = (netweave.run(each, {"x": x})["y"] for each in (graph, changed))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


def test_what_reads_all_steps_at_once_is_given_them_first(tmp_path):
    graph = read_text(KEPT, tmp_path, "kept")
    changed = examples_first(graph)
    op_types = [node.op_type for node in changed.nodes]
    assert op_types.index("Transpose") < op_types.index("ReduceSum")
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    first, second = (netweave.run(each, {"x": x})["y"] for each in (graph, changed))
    np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-6)


SCORES = """g (float[N,2,3,4] q, float[N,2,3,4] k, float[N,2,3,4] v) => (float[N,2,3,4] y)
<float s = {0.5}, float never = {-1e9}, bool[3,3] allowed = {1, 0, 0, 1, 1, 0, 1, 1, 1}>
{ t = Transpose<perm = [0, 1, 3, 2]>(k)  p = MatMul(q, t)  BODY
  w = Softmax<axis = -1>(z)  y = MatMul(w, v) }"""
BEHIND = SCORES.replace("BODY", "m = Where(allowed, p, never)  z = Mul(m, s)")
BEFORE = SCORES.replace("BODY", "m = Mul(p, s)  z = Where(allowed, m, never)")


@pytest.mark.parametrize("order", [(BEHIND, BEFORE), (BEFORE, BEHIND)])
def test_scores_that_are_scaled_behind_their_mask_are_attention(tmp_path, order):
    nets = [read_text(text, tmp_path, f"net{at}") for at, text in enumerate(order)]
    comparison = compare(*nets)
    assert comparison.verdict is Verdict.IDENTICAL
    assert not comparison.findings
