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


def recurrent(joined: str, biases: np.ndarray) -> str:
    """Return an LSTM in both directions whose outputs are joined and normalised."""
    stored = ", ".join(f"{x:.6f}" for x in biases.ravel())
    rng = np.random.default_rng(5)
    arrays = {"w": (2, 12, 4), "r": (2, 12, 3), "scale": (6,)}
    texts = []
    for name, shape in arrays.items():
        values = ", ".join(f"{x:.6f}" for x in rng.normal(size=shape).ravel())
        texts.append(f"float[{','.join(map(str, shape))}] {name} = {{{values}}}")
    return f"""g (float[N,T,4] x) => (float[N,T,6] y)
<{", ".join(texts)}, float[2,24] b = {{{stored}}}, int64[3] sizes = {{0, 0, 6}}>
{{ t = Transpose<perm = [1, 0, 2]>(x)
  h = LSTM<hidden_size = 3, direction = "bidirectional">(t, w, r, b)
  {joined}
  y = LayerNormalization(z, scale) }}"""


def test_directions_that_are_joined_in_either_order_of_steps_and_examples_are_identical(tmp_path):
    """One net has a bias for the input and one for the state, the other their sum, and zeros."""
    both = np.random.default_rng(7).normal(size=(2, 24))
    summed = np.concatenate([both[:, :12] + both[:, 12:], np.zeros((2, 12))], axis=1)
    steps_first_of_all = """d = Transpose<perm = [0, 2, 1, 3]>(h)  j = Reshape(d, sizes)
  z = Transpose<perm = [1, 0, 2]>(j)"""
    examples_first_of_all = "d = Transpose<perm = [2, 0, 1, 3]>(h)  z = Reshape(d, sizes)"
    a = read_text(recurrent(steps_first_of_all, both), tmp_path, "a")
    b = read_text(recurrent(examples_first_of_all, summed), tmp_path, "b")
    for first, second in ((a, b), (b, a)):
        found = compare(first, second)
        assert (found.equal, found.findings) == (True, ())
    other = summed.copy()
    other[1, 4] += 0.5
    found = compare(a, read_text(recurrent(examples_first_of_all, other), tmp_path, "other"))
    assert not found.equal
