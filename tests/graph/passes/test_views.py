"""Numbers for open sizes: formulas are computed, and what a stranger's file has in their place is none."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from netweave.graph.passes.views import OpenSizes


def value(*dims):
    return ir.Value(name="x", shape=ir.Shape(dims))


def test_a_formula_is_computed_from_the_numbers_of_its_symbols():
    sizes = OpenSizes()
    n, t = sizes.shape(value("N", "T"))
    assert n != t
    assert sizes.shape(value("2*N", "T//2 + 1", "N - 1", 7)) == (2 * n, t // 2 + 1, n - 1, 7)


def test_what_a_rounding_makes_of_sizes_is_a_size_of_its_own():
    sizes = OpenSizes()
    rows, steps, whole = sizes.shape(value("floor(h/8)", "floor(h/8)*floor(w/8) + 1", "floor(h/8)"))
    assert rows == whole
    assert steps % rows == 1
    assert sizes.shape(value("floor(h/8)*floor(w/8)")) == (steps - 1,)


def test_a_size_that_follows_from_the_others_is_remembered():
    sizes = OpenSizes()
    assert sizes.shape(value("K", 6), total=42) == (7, 6)
    assert sizes.shape(value("K")) == (7,)


@pytest.mark.parametrize(
    "text",
    [
        "1//0",
        "(" * 100,
        "-" * 100_000 + "1",
        "N" * 201,
        "9**9**9",
        "a\0b",
        "f(N)",
        "",
        "1e999",
        "N if N else 2",
    ],
)
def test_what_is_no_formula_has_no_number(text):
    assert OpenSizes().shape(value(text)) is None
