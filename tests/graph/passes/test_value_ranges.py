"""Ranges that values cannot leave: they prove a clip idle, so none may be too narrow."""

from __future__ import annotations

import numpy as np
import pytest

from netweave.graph.passes.value_ranges import OPEN, range_of
from tests.comparison.onnx_text import read_text

INT64 = (float(np.iinfo(np.int64).min), float(np.iinfo(np.int64).max))

RANGES = {
    "a clip": ("float[N,8]", "y = Clip(x, lo, hi)", (2.0, 5.0)),
    "a clip whose lower bound is the higher": ("float[N,8]", "y = Clip(x, hi, lo)", (2.0, 2.0)),
    "a clip between computed bounds": ("float[N,8]", "a = Abs(k) y = Clip(lo, k, a)", (0.0, np.inf)),
    "a cast to fewer bits": ("float[N,8]", "r = Clip(x, lo, many) y = Cast<to=2>(r)", (0.0, 255.0)),
    "a cast to enough bits": ("float[N,8]", "r = Clip(x, lo, hi) y = Cast<to=2>(r)", (2.0, 5.0)),
    "a sum that wraps around": ("int64[N,8]", "y = Add(x, x)", INT64),
    "the places of maxima": ("float[N,1,9]", "r = Relu(x) v, y = MaxPool<kernel_shape=[2]>(r)", INT64),
    "computed padding": ("float[N,8]", "r = Sigmoid(x) v = Add(k, k) y = Pad(r, p, v)", OPEN),
    "padding by 0": ("float[N,8]", "r = Clip(x, lo, hi) y = Pad(r, p)", (0.0, 5.0)),
}


def test_whole_numbers_that_tables_have_rows_for_are_of_these(tmp_path):
    text = (
        "g (int64[N] x) => (float[N] y, float[N] z) <float[3] few = {1, 2, 3}, float[4] more = {1, 2, 3, 4}, "
        "int64[1] flat = {-1}> { r = Reshape(x, flat) y = Gather(few, r) z = Gather(more, x) }"
    )
    assert range_of(read_text(text, tmp_path, "net").inputs[0]) == (-3.0, 2.0)


@pytest.mark.parametrize(("shape", "body", "expected"), RANGES.values(), ids=RANGES)
def test_a_range_holds_all_that_a_value_can_be(shape, body, expected, tmp_path):
    kind = "uint8" if "Cast<to=2>" in body else "int64" if expected == INT64 else "float"
    text = (
        f"g ({shape} x, float k) => ({kind} y) "
        f"<float lo = {{2}}, float hi = {{5}}, float many = {{300}}, int64[4] p = {{0,0,0,1}}> {{ {body} }}"
    )
    graph = read_text(text, tmp_path, "net")
    assert range_of(graph.outputs[0]) == expected
